import { clientWarning } from '../errors.js'
import { within } from '../util/timeout.js'
import { type Acknowledgement, type Fsync, type PortEvents, type RedisPort, subscribeEach } from './port.js'

/** How often to check a connection that owes a reply, ms. */
const TICK_MS = 500
/**
 * After this many checks without a reply a connection is in doubt. Checks are counted rather than time, so that replies
 * that arrived while the event loop was blocked are read first.
 */
const MOST_TICKS = 4
/** How long a new connection has to reply, ms; longer after each one that did not. */
const OPEN_MS = { first: 2_000, step: 500 }
/** Each failed attempt delays the next by one more check, up to this many. */
const MOST_DELAY_TICKS = 2
/** How often to PING the connection that listens, ms: waiters depend on it. */
const LISTENER_PING_MS = 5_000
const DEFAULT_PING_MS = 30_000
const SILENT = `A Redis server has not replied for ${(MOST_TICKS * TICK_MS) / 1_000} s`
const REPLACED = 'The Redis server is not the master any more'
/** The name under which the listening connection is tracked. No server has it. */
const LISTENER = 'listener'

export interface HealthOptions {
  /** How long a connection may be idle before it is sent a PING, ms; 0: for ever. Default 30 000. */
  readonly pingIntervalMs?: number | undefined
  /** What the owner of the client can do to make it recover by itself; undefined: the client is ours. */
  readonly advice?: string | undefined
  /** Called when the port is closed for good. */
  readonly onClose?: () => void
}

/**
 * A port whose connections are healthy or replaced. When a server has not replied for about two seconds, a second connection
 * with the same settings is opened; it takes over if it is served while the first one is still silent. TCP takes minutes to
 * notice a machine that lost power, a firewall that dropped a connection, or a frozen master that was replaced.
 * @param first  the port to start with
 */
export function healthy(first: RedisPort, reopen: Reopen, options: HealthOptions = {}): RedisPort {
  return new HealthyPort(first, reopen, options)
}

/**
 * Opens another port like the first one; resolves when it is connected. Ends what it opened when the signal says so.
 * @param server  the one that is in doubt, as `serverOf` of the port calls it
 * @param port  the one in use
 */
export type Reopen = (signal: AbortSignal, server: string, port: RedisPort) => Promise<RedisPort>

/** What is known of the exchange with one server. */
interface Talk {
  inFlight: number
  /** The last command failed on its way. */
  isFailing: boolean
  /** Another server is the master now. */
  isReplaced: boolean
  /** Checks since its last reply, while it owed one. */
  ticks: number
  /** Until when it may be silent, on the monotonic clock: WAIT and WAITAOF block the connection. */
  quietUntil: number
  /** A key that it owns. */
  key: string
  heard(): void
  failed(error: unknown): void
}

interface Channel {
  readonly onMessage: (message: string) => void
  /** Ends the first SUBSCRIBE. */
  settle: ((refusal?: unknown) => void) | undefined
}

class HealthyPort implements RedisPort {
  readonly isCluster: boolean
  readonly isReplicated: boolean
  readonly #reopen: Reopen
  readonly #advice: string | undefined
  readonly #onClose: (() => void) | undefined
  readonly #pingMs: number
  readonly #channels = new Map<string, Channel>()
  #port: RedisPort
  #talks = new Map<string, Talk>()
  #events: PortEvents | undefined
  #ticking: NodeJS.Timeout | undefined
  #pinging: NodeJS.Timeout | undefined
  #heardAt = 0
  /** Of an attempt to open another connection. */
  #attempt: AbortController | undefined
  #failedAttempts = 0
  #isClosed = false

  constructor(first: RedisPort, reopen: Reopen, { pingIntervalMs, advice, onClose }: HealthOptions) {
    this.isCluster = first.isCluster ?? false
    this.isReplicated = first.isReplicated ?? false
    this.#port = first
    this.#reopen = reopen
    this.#advice = advice
    this.#onClose = onClose
    this.#pingMs = pingIntervalMs ?? DEFAULT_PING_MS
  }

  send(command: readonly string[], key: string): Promise<unknown> {
    return this.#watch(this.#port.send(command, key), key)
  }

  serverOf(key: string): string | undefined {
    return this.#port.serverOf ? this.#port.serverOf(key) : ''
  }

  isErrorReply(error: unknown): boolean {
    return this.#port.isErrorReply(error)
  }

  async acknowledge(key: string, timeoutMs: number): Promise<Acknowledgement> {
    const port = this.#port
    const answer = await this.#confirm(key, timeoutMs, port.acknowledge?.(key, timeoutMs))
    if (port === this.#port) this.#talk(port.serverOf?.(key) ?? '', key).isReplaced = answer.isReplaced ?? false
    return answer
  }

  fsynced(key: string, timeoutMs: number): Promise<Fsync> {
    return this.#confirm(key, timeoutMs, this.#port.fsynced?.(key, timeoutMs))
  }

  async subscribe(name: string, onMessage: (message: string) => void): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const channel: Channel = {
        onMessage,
        settle(refusal) {
          channel.settle = undefined
          if (refusal === undefined) resolve()
          else reject(refusal)
        },
      }
      this.#channels.get(name)?.settle?.()
      this.#channels.set(name, channel)
      const port = this.#port
      // The outcome at a port that was replaced means nothing: its successor subscribes again.
      const settle = (refusal?: unknown): void => void (this.#port === port && channel.settle?.(refusal))
      this.#subscribe(port, name, onMessage).then(() => settle(), settle)
    })
  }

  async unsubscribe(name: string): Promise<void> {
    this.#channels.get(name)?.settle?.()
    this.#channels.delete(name)
    await this.#port.unsubscribe(name)
  }

  listen(events: PortEvents): void {
    this.#events = events
    this.#attach(this.#port)
    this.#schedulePing()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#attempt?.abort()
    clearInterval(this.#ticking)
    clearTimeout(this.#pinging)
    for (const { settle } of this.#channels.values()) settle?.()
    this.#channels.clear()
    this.#onClose?.()
    await this.#port.close()
  }

  #attach(port: RedisPort): void {
    const isOurs = (): boolean => port === this.#port
    port.listen({
      confirmsGrants: this.#events?.confirmsGrants,
      reconnected: () => {
        if (!isOurs()) return
        for (const talk of this.#talks.values()) talk.isFailing = false
        this.#events?.reconnected()
      },
      subscriptionLost: (channel) => {
        if (isOurs()) this.#events?.subscriptionLost?.(channel)
      },
      resubscribed: (channel, refusal) => {
        if (isOurs()) this.#events?.resubscribed(channel, refusal)
      },
    })
  }

  /** Watched only where the listening connection can be sent a PING. */
  #subscribe(port: RedisPort, name: string, onMessage: (message: string) => void): Promise<void> {
    const confirmed = port.subscribe(name, onMessage)
    return port.pingListener ? this.#watch(confirmed, name, LISTENER) : confirmed
  }

  /** WAIT and WAITAOF block the connection, so silence means nothing until they time out. */
  #confirm<T>(key: string, timeoutMs: number, confirmed: Promise<T> | undefined): Promise<T> {
    if (!confirmed) return Promise.reject(new TypeError('every port that is watched can be asked'))
    const talk = this.#talk(this.#port.serverOf?.(key) ?? '', key)
    talk.quietUntil = Math.max(talk.quietUntil, performance.now() + timeoutMs)
    return this.#watch(confirmed, key)
  }

  #watch<T>(reply: Promise<T>, key: string, server = this.#port.serverOf?.(key) ?? ''): Promise<T> {
    const talk = this.#talk(server, key)
    talk.inFlight++
    this.#ticking ??= setInterval(this.#tick, TICK_MS).unref()
    reply.then(talk.heard, talk.failed)
    return reply
  }

  #talk(server: string, key: string): Talk {
    const present = this.#talks.get(server)
    if (present) {
      present.key = key
      return present
    }
    const talk: Talk = {
      inFlight: 0,
      isFailing: false,
      isReplaced: false,
      ticks: 0,
      quietUntil: 0,
      key,
      heard: () => {
        talk.inFlight--
        talk.ticks = 0
        talk.isFailing = false
        this.#heardAt = performance.now()
      },
      failed: (error) => {
        if (this.#port.isErrorReply(error)) return talk.heard()
        talk.inFlight--
        talk.isFailing = true
      },
    }
    this.#talks.set(server, talk)
    return talk
  }

  readonly #tick = (): void => {
    let isIdle = true
    for (const [server, talk] of this.#talks) {
      if (talk.inFlight === 0 && !talk.isFailing && !talk.isReplaced) continue
      isIdle = false
      if (talk.isReplaced) void this.#replace(server, talk)
      if (performance.now() < talk.quietUntil) continue
      if (++talk.ticks >= MOST_TICKS) void this.#replace(server, talk)
    }
    if (!isIdle) return
    clearInterval(this.#ticking)
    this.#ticking = undefined
    if (this.isCluster) this.#talks.clear() // servers come and go
  }

  /** Open another connection, and switch to it unless the one in doubt has replied by then. */
  async #replace(server: string, talk: Talk): Promise<void> {
    if (this.#attempt || this.#isClosed) return
    const attempt = new AbortController()
    this.#attempt = attempt
    const { signal } = attempt
    const limitMs = OPEN_MS.first + OPEN_MS.step * this.#failedAttempts
    try {
      const port = await within(limitMs, this.#reopen(signal, server, this.#port), signal)
      if (server !== LISTENER) await within(limitMs, replied(port, talk.key), signal)
      const isWell = talk.ticks === 0 && !talk.isFailing && !talk.isReplaced
      if (isWell) attempt.abort()
      else this.#swap(port, talk.isReplaced ? REPLACED : SILENT)
      this.#failedAttempts = 0
    } catch {
      // Nothing can be reached: back off.
      attempt.abort()
      this.#failedAttempts = Math.min(this.#failedAttempts + 1, MOST_DELAY_TICKS)
      talk.ticks = Math.min(talk.ticks, MOST_TICKS - this.#failedAttempts)
    } finally {
      this.#attempt = undefined
    }
  }

  #swap(port: RedisPort, why: string): void {
    const before = this.#port
    this.#port = port
    this.#talks = new Map()
    this.#attach(port)
    this.#events?.reconnected()
    this.#events?.warning?.(this.#warning(why))
    const subscribe = async (name: string): Promise<void> => {
      const channel = this.#channels.get(name)
      if (channel) await this.#subscribe(port, name, channel.onMessage)
    }
    for (const name of this.#channels.keys()) this.#events?.subscriptionLost?.(name)
    subscribeEach(this.#channels.keys(), subscribe, this.isErrorReply.bind(this), (name, refusal) => {
      if (this.#port !== port) return
      this.#channels.get(name)?.settle?.(refusal)
      this.#events?.resubscribed(name, refusal)
    })
    void before.close().catch(() => {})
  }

  #warning(why: string): Error {
    const advice = this.#advice === undefined ? '' : `. Your client was left as it is: ${this.#advice}`
    return clientWarning(
      'CONNECTION_REPLACED',
      `${why}, so this client opened another connection and uses that one${advice}`,
    )
  }

  #schedulePing(): void {
    const everyMs = Math.min(LISTENER_PING_MS, this.#pingMs || LISTENER_PING_MS)
    this.#pinging = setTimeout(() => {
      this.#ping()
      this.#schedulePing()
    }, everyMs).unref()
  }

  #ping(): void {
    const port = this.#port
    // A listening connection that was closed is opened again by the port itself: only silence counts.
    if (this.#channels.size > 0 && port.pingListener)
      void this.#watch(
        port.pingListener().catch(() => {}),
        '',
        LISTENER,
      )
    const isIdle = performance.now() - this.#heardAt > this.#pingMs
    if (isIdle && this.#pingMs > 0 && port.ping) this.#watch(port.ping(), '').catch(() => {})
  }
}

/** Resolves when the server that owns `key` has replied to anything. */
async function replied(port: RedisPort, key: string): Promise<void> {
  try {
    await port.send(['EXISTS', key], key)
  } catch (error) {
    if (!port.isErrorReply(error)) throw error
  }
}
