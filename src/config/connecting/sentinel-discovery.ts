// Finds the master through Sentinel.
import { setMaxListeners } from 'node:events'
import type { Redis } from 'ioredis'
import { withoutSecrets } from '../../util/secrets.js'
import type { Address } from '../address.js'
import type { Deployment } from '../deployment.js'
import { serverName } from '../tls.js'
import { mostInformative, settledSoon } from './master-discovery.js'

type Ioredis = Pick<typeof import('ioredis'), 'Redis'>

/** How long to wait for the other Sentinels once one has named the master, ms. */
const OTHERS_MS = 250
/** Subscribes to at most this many Sentinels. */
const MAX_WATCHED = 10
const SWITCHED = '+switch-master'

interface Endpoint {
  readonly host: string
  readonly port: number
}

/** The reply of one Sentinel. */
interface SentinelReply {
  readonly master: Endpoint
  /** Grows with each failover, so the highest epoch is the latest. */
  readonly epoch: number
  readonly others: readonly Endpoint[]
}

/**
 * Finds the master through Sentinel. Asks all Sentinels at once, so that those that are down or silent delay nothing.
 */
export class SentinelDiscovery {
  readonly #ioredis: Ioredis
  readonly #deployment: Deployment
  readonly #disconnectTimeout: number
  /** Further Sentinels that were named in the last round. */
  #discovered: readonly Endpoint[] = []

  constructor(ioredis: Ioredis, deployment: Deployment, disconnectTimeout: number) {
    this.#ioredis = ioredis
    this.#deployment = deployment
    this.#disconnectTimeout = disconnectTimeout
  }

  /** @returns the master that the Sentinels name; if they differ, the one that was elected last */
  async findMaster(signal: AbortSignal): Promise<Endpoint> {
    signal.throwIfAborted()
    const ended = new AbortController()
    const both = AbortSignal.any([signal, ended.signal])
    setMaxListeners(0, both) // one per Sentinel
    const outcomes = await settledSoon(
      this.#known().map((endpoint) => this.#query(endpoint, both)),
      OTHERS_MS,
    )
    ended.abort()
    const replies = outcomes.flatMap((one) => (one?.status === 'fulfilled' ? [one.value] : []))
    const [latest] = replies.sort((one, other) => other.epoch - one.epoch)
    if (!latest) {
      throw mostInformative(outcomes.flatMap((one) => (one?.status === 'rejected' ? [one.reason as Error] : [])))
    }
    if (this.#deployment.sentinel.isDiscovering) this.#discovered = replies.flatMap(({ others }) => others)
    return latest.master
  }

  /**
   * Watches for a failover.
   * @param onSwitch  called when the Sentinels name a master other than `master`
   * @returns a function that stops watching
   */
  watch(master: Endpoint, onSwitch: () => void): () => void {
    const ended = new AbortController()
    const { masterName } = this.#deployment.sentinel
    const compare = (named: Endpoint): void => {
      if (isSame(named, master)) return
      // A single Sentinel may lag behind the others.
      this.findMaster(ended.signal).then(
        (latest) => void (isSame(latest, master) || ended.signal.aborted || onSwitch()),
        () => {},
      )
    }
    const clients = this.#known()
      .slice(0, MAX_WATCHED)
      .map((endpoint) => {
        const client = this.#client(endpoint, () => this.#deployment.scanIntervalMs)
        client.on('ready', () => {
          // There may have been a failover before it subscribed.
          this.#masterNamedBy(client).then(compare, () => {})
          client.subscribe(SWITCHED).catch(() => {})
        })
        client.on('message', (_channel: string, message: string) => {
          const [name, , , host = '', port] = message.split(' ')
          if (name === masterName) compare({ host, port: Number(port) })
        })
        client.connect().catch(() => {})
        return client
      })
    return () => {
      ended.abort()
      for (const client of clients) client.disconnect()
    }
  }

  /** The address at which a server named by the Sentinels can be reached. */
  reached(endpoint: Endpoint): Address {
    const { natMap, tls } = this.#deployment
    const { host, port } = natMap?.(`${endpoint.host}:${endpoint.port}`) ?? endpoint
    return { host, port, isTls: tls !== undefined }
  }

  #known(): readonly Endpoint[] {
    const all = [...this.#deployment.addresses, ...this.#discovered]
    return all.filter((one, index) => all.findIndex((other) => isSame(one, other)) === index)
  }

  async #query(endpoint: Endpoint, signal: AbortSignal): Promise<SentinelReply> {
    const client = this.#client(endpoint, null)
    let cause: Error | undefined
    client.on('error', (error: Error) => {
      cause ??= error
    })
    const end = (): void => client.disconnect()
    signal.addEventListener('abort', end, { once: true })
    try {
      // The epoch first: if a failover ends in between, the epoch may be older than the address, never newer.
      const [epoch, master, others] = await Promise.all([
        this.#epochOf(client),
        this.#masterNamedBy(client),
        this.#othersOf(client),
      ])
      return { master, epoch, others }
    } catch (error) {
      throw withoutSecrets(cause ?? error)
    } finally {
      signal.removeEventListener('abort', end)
      if (!signal.aborted) end()
    }
  }

  async #masterNamedBy(client: Redis): Promise<Endpoint> {
    const { masterName } = this.#deployment.sentinel
    const named = await client.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', masterName)
    if (!Array.isArray(named) || named.length < 2) throw new Error(`the Sentinels know no master "${masterName}"`)
    return { host: String(named[0]), port: Number(named[1]) }
  }

  /** @returns 0 if the user may not ask for it */
  async #epochOf(client: Redis): Promise<number> {
    const reply = await client.call('SENTINEL', 'MASTER', this.#deployment.sentinel.masterName).catch(() => [])
    return Number(fieldsOf(reply).get('config-epoch')) || 0
  }

  async #othersOf(client: Redis): Promise<readonly Endpoint[]> {
    if (!this.#deployment.sentinel.isDiscovering) return []
    const reply = await client.call('SENTINEL', 'SENTINELS', this.#deployment.sentinel.masterName).catch(() => [])
    if (!Array.isArray(reply)) return []
    const all = reply.map(fieldsOf).filter((one) => !/disconnected|down/.test(one.get('flags') ?? ''))
    return all.map((one) => this.reached({ host: one.get('ip') ?? '', port: Number(one.get('port')) }))
  }

  #client({ host, port }: Endpoint, retryStrategy: (() => number) | null): Redis {
    const { connectTimeoutMs, sentinel, tls } = this.#deployment
    const client = new this.#ioredis.Redis({
      host,
      port,
      lazyConnect: true,
      enableReadyCheck: false,
      autoResubscribe: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
      connectTimeout: connectTimeoutMs,
      disconnectTimeout: this.#disconnectTimeout,
      // The same form of replies, whatever the protocol of the servers.
      protocol: 2,
      retryStrategy: retryStrategy as () => number,
      ...(sentinel.username === undefined ? {} : { username: sentinel.username }),
      ...(sentinel.password === undefined ? {} : { password: sentinel.password }),
      ...(tls ? { tls: { ...serverName(host), ...tls } } : {}),
    })
    // Without a listener ioredis prints every failed attempt to the console.
    client.on('error', () => {})
    return client
  }
}

function isSame(one: Endpoint, other: Endpoint): boolean {
  return one.host === other.host && one.port === other.port
}

/** A reply of Sentinel: names and values alternate. */
function fieldsOf(reply: unknown): Map<string, string> {
  const words = Array.isArray(reply) ? reply.map(String) : []
  return new Map(words.flatMap((word, index) => (index % 2 === 0 ? [[word, words[index + 1] ?? '']] : [])))
}
