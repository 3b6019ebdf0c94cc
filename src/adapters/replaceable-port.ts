// Notices a frozen or demoted server, or a dead connection, and replaces it.
import { clearInterval, clearTimeout, monotonicNow, setInterval, setTimeout } from '../util/real-time.js'
import { sleep } from '../util/sleep.js'
import { within } from '../util/timeout.js'
import { connectionReplaced } from '../warnings.js'
import { type Acknowledgement, type Fsync, type PortEvents, type RedisPort, subscribeEach } from './port.js'
import { isEchoed, isReplica, isRun, passesSelfTest, takesWrites } from './probes.js'
import { MIXED_UP, ServerHealth } from './server-health.js'

/** How often to check a connection with a reply outstanding, ms. */
const CHECK_MS = 500
/**
 * After this many checks without a reply a server counts as unresponsive. Checks are counted rather than time, so that
 * replies that arrived while the event loop was blocked are read first.
 */
const MAX_SILENT_CHECKS = 4
/** How long a new connection has to reply, ms; longer after each one that did not. */
const OPEN_MS = { first: 2_000, step: 500 }
/** Each failed attempt delays the next by one more check, up to this many. */
const MAX_DELAY_CHECKS = 2
/** How often to send PING on the subscriber connection, ms: waiters depend on it. */
const LISTENER_PING_MS = 5_000
const DEFAULT_PING_MS = 30_000
/** A server that was paused replies on all connections at once: by how much later a reply may be read, ms. */
const LATE_MS = 50
const SILENT = `A Redis server has not replied for ${(MAX_SILENT_CHECKS * CHECK_MS) / 1_000} s`
const REPLACED = 'The Redis server is no longer the master'
/** The name under which the subscriber connection is tracked. No server has it. */
const LISTENER = 'listener'

export interface ReplacementOptions {
  /** How long a connection may be idle before a PING is sent, ms; 0: forever. Default 30 000. */
  readonly pingIntervalMs?: number | undefined
  /** Whether the owner of the client has closed it: then nothing is sent any more, and nothing replaced. */
  readonly isClosed?: () => boolean
  /** Opens the first port. */
  readonly open?: () => Promise<unknown>
  /** Called when the port is closed for good. */
  readonly onClose?: () => void
}

/**
 * Notices a frozen server or a dead connection, and replaces it. When a server has not replied for about two seconds, a
 * second connection with the same settings is opened; it takes over if it gets a reply while the first one is still
 * silent. TCP takes minutes to notice a machine that lost power, a firewall that dropped a connection, or a frozen
 * master that was replaced.
 * @param first  the port to start with
 */
export function replaceWhenUnresponsive(first: RedisPort, reopen: Reopen, options: ReplacementOptions = {}): RedisPort {
  return new ReplaceablePort(first, reopen, options)
}

/**
 * Opens another port like the first one. Resolves when it is connected, and ends what it opened when the signal aborts.
 * @param server  the unresponsive server, as `serverOf` of the port names it
 * @param port  the port in use
 */
export type Reopen = (signal: AbortSignal, server: string, port: RedisPort) => Promise<RedisPort>

interface Subscription {
  readonly onMessage: (message: string) => void
  /** Resolves or rejects the first SUBSCRIBE. */
  settle: ((refusal?: unknown) => void) | undefined
}

class ReplaceablePort implements RedisPort {
  readonly isCluster: boolean
  readonly isReplicated: boolean
  declare readonly serverOf?: (key: string) => string | undefined
  readonly #reopen: Reopen
  readonly #isClosedByOwner: () => boolean
  readonly #onClose: (() => void) | undefined
  readonly #open: (() => Promise<unknown>) | undefined
  readonly #pingMs: number
  readonly #channels = new Map<string, Subscription>()
  #port: RedisPort
  #servers = new Map<string, ServerHealth>()
  #events: PortEvents | undefined
  #checkTimer: NodeJS.Timeout | undefined
  #pingTimer: NodeJS.Timeout | undefined
  /** When the last reply arrived, from any server. */
  readonly #replies = { lastAt: 0 }
  /** Aborts the attempt to open another connection. */
  #attempt: AbortController | undefined
  #failedAttempts = 0
  #isClosed = false

  constructor(first: RedisPort, reopen: Reopen, { pingIntervalMs, isClosed, open, onClose }: ReplacementOptions) {
    this.isCluster = first.isCluster ?? false
    this.isReplicated = first.isReplicated ?? false
    this.#port = first
    if (first.serverOf) this.serverOf = (key) => this.#port.serverOf?.(key)
    this.#reopen = reopen
    this.#isClosedByOwner = isClosed ?? (() => false)
    this.#onClose = onClose
    this.#open = open
    this.#pingMs = pingIntervalMs ?? DEFAULT_PING_MS
  }

  async open(): Promise<void> {
    await this.#open?.()
  }

  /** Not async, and with one promise of its own: each costs as much as the rest of this. */
  send(command: readonly string[], key: string): Promise<unknown> {
    const health = this.#healthOf(this.serverOf?.(key) ?? '', key)
    if (health.isMixedUp) throw new Error(MIXED_UP)
    if (this.#isClosedByOwner()) throw new Error('the client was closed')
    const reply = this.#port.send(command, key)
    this.#sent(health)
    return reply.then(health.received, health.rejected)
  }

  async masters(): Promise<readonly string[]> {
    return (await this.#port.masters?.()) ?? ['']
  }

  async sendTo(master: string, command: readonly string[]): Promise<unknown> {
    return await (this.#port.sendTo ? this.#port.sendTo(master, command) : this.send(command, ''))
  }

  get connectionError(): unknown {
    return this.#port.connectionError
  }

  isErrorReply(error: unknown): boolean {
    return this.#port.isErrorReply(error)
  }

  async acknowledge(key: string, timeoutMs: number): Promise<Acknowledgement> {
    const port = this.#port
    const acknowledgement = await this.#confirm(key, timeoutMs, port.acknowledge?.(key, timeoutMs))
    if (port === this.#port) {
      this.#healthOf(port.serverOf?.(key) ?? '', key).replacedRun = acknowledgement.replacedRun
    }
    return acknowledgement
  }

  fsynced(key: string, timeoutMs: number): Promise<Fsync> {
    return this.#confirm(key, timeoutMs, this.#port.fsynced?.(key, timeoutMs))
  }

  async subscribe(name: string, onMessage: (message: string) => void): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const channel: Subscription = {
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
      // Ignore the outcome at a port that was replaced: its successor subscribes again.
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
    clearInterval(this.#checkTimer)
    clearTimeout(this.#pingTimer)
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
        for (const [server, health] of this.#servers) {
          health.isFailing = false
          if (server !== LISTENER && (health.inFlight > 0 || !this.isCluster)) this.#testItself(server, health, port)
        }
        this.#events?.reconnected()
      },
      subscriptionLost: (channel) => {
        if (isOurs()) this.#events?.subscriptionLost?.(channel)
      },
      resubscribed: (channel, refusal) => {
        if (isOurs()) this.#events?.resubscribed(channel, refusal)
      },
      warning: (warning) => {
        if (isOurs()) this.#events?.warning?.(warning)
      },
    })
  }

  /** Watched only if the subscriber connection can be pinged. */
  #subscribe(port: RedisPort, name: string, onMessage: (message: string) => void): Promise<void> {
    const confirmed = port.subscribe(name, onMessage)
    return port.pingListener ? this.#watch(confirmed, this.#healthOf(LISTENER, name)) : confirmed
  }

  /** WAIT and WAITAOF block the connection: only silence beyond their timeout counts. */
  #confirm<T>(key: string, timeoutMs: number, confirmed: Promise<T> | undefined): Promise<T> {
    if (!confirmed) return Promise.reject(new TypeError('this port cannot confirm writes'))
    const health = this.#healthOf(this.#port.serverOf?.(key) ?? '', key)
    health.blockedUntil = Math.max(health.blockedUntil, monotonicNow() + timeoutMs)
    return this.#watch(confirmed, health)
  }

  #watch<T>(reply: Promise<T>, health: ServerHealth): Promise<T> {
    this.#sent(health)
    reply.then(health.replied, health.failed)
    return reply
  }

  #sent(health: ServerHealth): void {
    health.inFlight++
    this.#checkTimer ??= setInterval(this.#check, CHECK_MS).unref()
  }

  #healthOf(server: string, key: string): ServerHealth {
    const present = this.#servers.get(server)
    if (present) {
      if (key !== '') present.key = key
      return present
    }
    const health = new ServerHealth(key, {
      replies: this.#replies,
      isErrorReply: (error) => this.#port.isErrorReply(error),
      onDemotion: () => this.#servers.get(server) === health && this.#demoted(server, health),
    })
    this.#servers.set(server, health)
    return health
  }

  readonly #check = (): void => {
    let isIdle = true
    for (const [server, health] of this.#servers) {
      const mustLeave = health.replacedRun !== undefined || health.isDemoted || health.isMixedUp
      if (health.inFlight === 0 && !health.isFailing && !mustLeave) continue
      isIdle = false
      if (mustLeave) void this.#replace(server, health)
      if (monotonicNow() < health.blockedUntil) continue
      if (++health.silentChecks >= MAX_SILENT_CHECKS) void this.#replace(server, health)
    }
    if (!isIdle) return
    clearInterval(this.#checkTimer)
    this.#checkTimer = undefined
    if (this.isCluster) this.#servers.clear() // servers come and go
  }

  /**
   * A Redis client that left a command in its queue when it lost the connection gives it the reply to the next one, and so
   * on. So a text that was never sent before must come back, behind all that was in flight; until then no reply counts.
   */
  #testItself(server: string, health: ServerHealth, port: RedisPort): void {
    const echo = (): Promise<boolean> => this.#watch(isEchoed(port, health.key), health)
    const test = passesSelfTest(echo, port.isErrorReply.bind(port)).then((isRight) => {
      health.isMixedUp ||= isRight === false
      if (health.selfTest === test && isRight) health.selfTest = undefined
      if (!isRight && health.isMixedUp && port === this.#port) void this.#replace(server, health)
      return isRight === true
    })
    health.selfTest = test
  }

  /** One address may lead to another server meanwhile, while the old one keeps its connections. */
  #demoted(server: string, health: ServerHealth): void {
    health.isDemoted = true
    this.#checkTimer ??= setInterval(this.#check, CHECK_MS).unref()
    if (this.#failedAttempts === 0) void this.#replace(server, health)
  }

  /** Opens another connection, and switches to it unless the unresponsive one has replied by then. */
  async #replace(server: string, health: ServerHealth): Promise<void> {
    if (this.#attempt || this.#isClosed || this.#isClosedByOwner()) return
    const attempt = new AbortController()
    this.#attempt = attempt
    const { signal } = attempt
    const limitMs = OPEN_MS.first + OPEN_MS.step * this.#failedAttempts
    try {
      const port = await within(limitMs, this.#reopen(signal, server, this.#port), signal)
      if (server !== LISTENER) await within(limitMs, this.#succeeds(port, health), signal)
      await sleep(LATE_MS, { signal })
      if (health.isDemoted) health.isDemoted = await isReplica(this.#port, health.key, limitMs, signal)
      signal.throwIfAborted()
      const { isDemoted, isMixedUp, replacedRun } = health
      const isLeft = isDemoted || replacedRun !== undefined
      const hasRecovered = health.silentChecks === 0 && !health.isFailing && !isLeft && !isMixedUp
      if (hasRecovered) attempt.abort()
      else this.#swap(port, isMixedUp ? MIXED_UP : isLeft ? REPLACED : SILENT)
      this.#failedAttempts = 0
    } catch {
      // No server can be reached, or none that is a master: back off.
      attempt.abort()
      this.#failedAttempts = Math.min(this.#failedAttempts + 1, MAX_DELAY_CHECKS)
      health.silentChecks = Math.min(health.silentChecks, MAX_SILENT_CHECKS - this.#failedAttempts)
    } finally {
      this.#attempt = undefined
      health.isDemoted = false // until it reports that again
    }
  }

  /** @throws {Error} this port does not lead to a master, or to the one that was replaced */
  async #succeeds(port: RedisPort, health: ServerHealth): Promise<void> {
    const { key, replacedRun } = health
    await takesWrites(port, key)
    if (replacedRun === undefined || !(await isRun(port, replacedRun, key))) return
    health.replacedRun = undefined // until the others say so again
    throw new Error('the failover is not over yet')
  }

  #swap(port: RedisPort, why: string): void {
    const before = this.#port
    this.#port = port
    this.#servers = new Map()
    this.#attach(port)
    this.#events?.reconnected()
    const code = why === MIXED_UP ? 'REPLIES_MIXED_UP' : 'CONNECTION_REPLACED'
    this.#events?.warning?.(connectionReplaced(code, why))
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

  #schedulePing(): void {
    const everyMs = Math.min(LISTENER_PING_MS, this.#pingMs || LISTENER_PING_MS)
    this.#pingTimer = setTimeout(() => {
      this.#ping()
      this.#schedulePing()
    }, everyMs).unref()
  }

  #ping(): void {
    const port = this.#port
    // A closed subscriber connection is reopened by the port itself: only silence counts.
    if (this.#channels.size > 0 && port.pingListener)
      void this.#watch(
        port.pingListener().catch(() => {}),
        this.#healthOf(LISTENER, ''),
      )
    const isIdle = monotonicNow() - this.#replies.lastAt > this.#pingMs
    if (isIdle && this.#pingMs > 0 && port.ping) this.#watch(port.ping(), this.#healthOf('', '')).catch(() => {})
  }
}
