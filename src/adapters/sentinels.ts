import { within } from '../util/timeout.js'
import type { Standing } from './replicas.js'

export interface SentinelAddress {
  readonly host: string
  readonly port: number
}

/** A connection to one Sentinel. It does not reconnect: one that has ended is opened again when it is needed. */
export interface SentinelConnection {
  readonly isOpen: boolean
  call(...command: [string, ...string[]]): Promise<unknown>
  end(): void
}

/** What one Sentinel knows. */
interface View {
  /** Of the last failover that it knows of. */
  readonly epoch: number
  readonly runId: string
  readonly address: string
  readonly flags: readonly string[]
  /** The server that it names to clients: during a failover the one that takes over. */
  readonly named: string
  /** How many replicas it can reach. */
  readonly replicas: number
}

/** How long one Sentinel has to reply, ms. One that takes longer is not waited for until it has replied again. */
const REPLY_MS = 300

/** Asks all Sentinels of a deployment whether a server still is the master. */
export class Sentinels {
  #name: string | undefined
  readonly #open: (address: SentinelAddress) => SentinelConnection
  readonly #isDiscovering: boolean
  readonly #sentinels = new Map<string, Sentinel>()
  /** Who replaced the server that was asked about last. */
  #successor: string | undefined

  /**
   * @param name  of the master; undefined: they are asked for it
   * @param isDiscovering  whether to ask those Sentinels, too, that the given ones know
   */
  constructor(
    name: string | undefined,
    addresses: readonly SentinelAddress[],
    open: (address: SentinelAddress) => SentinelConnection,
    isDiscovering: boolean,
  ) {
    this.#name = name
    this.#open = open
    this.#isDiscovering = isDiscovering
    for (const address of addresses) this.add(address)
  }

  add(address: SentinelAddress): void {
    const key = `${address.host}:${address.port}`
    if (this.#sentinels.has(key)) return
    this.#sentinels.set(key, { address, connection: undefined, isSilent: false, described: undefined })
  }

  /**
   * @param runId  of the server: its present run
   * @param address  of the server, as Sentinels would write it; undefined: it is known by its run alone
   * @returns undefined if no Sentinel replied
   */
  async standing(runId: string, address: string | undefined): Promise<Standing | undefined> {
    const sentinels = [...this.#sentinels.values()]
    const isAnySound = sentinels.some(({ isSilent }) => !isSilent)
    const views = await Promise.all(
      sentinels.map((sentinel) => {
        const view = this.#ask(sentinel, runId)
        return isAnySound && sentinel.isSilent ? undefined : view
      }),
    )
    // Who missed the last failover is overruled by who did not.
    const view = views.reduce((best, one) => (one && (!best || one.epoch > best.epoch) ? one : best), undefined)
    if (!view) return undefined
    const peers = views.filter((one) => one !== undefined && one.epoch === view.epoch) as View[]
    const standing = {
      replicas: Math.max(...peers.map(({ replicas }) => replicas)),
      isConfirmed: peers.length * 2 > this.#sentinels.size,
    }
    const isOurs = (view.runId !== '' && view.runId === runId) || view.address === address
    // While its failover goes on, a Sentinel names the server that takes over, and still describes the one before.
    const successor = isOurs ? peers.find((one) => one.named !== one.address) : view
    this.#successor = successor?.named
    if (successor) {
      return { ...standing, refusal: `the Sentinels name ${successor.named} as the master`, isReplaced: true }
    }
    const isDoubted = peers.some(({ flags }) => flags.includes('failover_in_progress') || flags.includes('o_down'))
    return isDoubted ? { ...standing, refusal: 'the Sentinels are about to replace it' } : standing
  }

  /**
   * Those that describe the successor of a server that was replaced. A Sentinel hears of a failover that another one led up to
   * two seconds later.
   * @returns undefined if the server was the master when last asked
   */
  describingSuccessor(): SentinelAddress[] | undefined {
    if (this.#successor === undefined) return undefined
    const informed = [...this.#sentinels.values()].filter(({ described }) => described === this.#successor)
    return informed.map(({ address }) => address)
  }

  close(): void {
    for (const { connection } of this.#sentinels.values()) connection?.end()
    this.#sentinels.clear()
  }

  /** Never rejects. */
  async #ask(sentinel: Sentinel, runId: string): Promise<View | undefined> {
    try {
      if (!sentinel.connection?.isOpen) sentinel.connection = this.#open(sentinel.address)
      const { connection } = sentinel
      const view = await within(REPLY_MS, this.#viewOf(connection, runId))
      sentinel.isSilent = false
      sentinel.described = view.address
      return view
    } catch {
      sentinel.isSilent = true
      sentinel.described = undefined
      sentinel.connection?.end()
      sentinel.connection = undefined
      return undefined
    }
  }

  async #viewOf(connection: SentinelConnection, runId: string): Promise<View> {
    const name = this.#name ?? (await nameOf(connection, runId))
    this.#name = name
    const ask = (what: string): Promise<unknown> => connection.call('SENTINEL', what, name)
    const [named, master, replicas, others] = await Promise.all([
      ask('GET-MASTER-ADDR-BY-NAME'),
      ask('MASTER'),
      ask('REPLICAS'),
      this.#isDiscovering ? ask('SENTINELS') : [],
    ])
    for (const { ip = '', port, flags } of (others as unknown[]).map(fieldsOf)) {
      if (!isDown(flags)) this.add({ host: ip, port: Number(port) })
    }
    const { ip, port, runid = '', flags = '', 'config-epoch': epoch } = fieldsOf(master)
    return {
      epoch: Number(epoch),
      runId: runid,
      address: `${ip}:${port}`,
      flags: flags.split(','),
      named: (named as unknown[]).map(String).join(':'),
      replicas: (replicas as unknown[]).filter((replica) => !isDown(fieldsOf(replica)['flags'])).length,
    }
  }
}

interface Sentinel {
  readonly address: SentinelAddress
  connection: SentinelConnection | undefined
  isSilent: boolean
  /** The address of the master that it described last. */
  described: string | undefined
}

/** What a Sentinel calls the master that has this run, or the only one that it watches. */
async function nameOf(connection: SentinelConnection, runId: string): Promise<string> {
  const masters = ((await connection.call('SENTINEL', 'MASTERS')) as unknown[]).map(fieldsOf)
  const master = masters.length === 1 ? masters[0] : masters.find(({ runid }) => runid === runId)
  if (master?.['name'] === undefined)
    throw new Error('the Sentinel watches several masters, and none of them is this one')
  return master['name']
}

function isDown(flags = ''): boolean {
  return /\b(s_down|o_down|disconnected)\b/.test(flags)
}

type Fields = Readonly<Partial<Record<string, string>>>

/** A reply of names and values, in RESP2 a flat list. */
function fieldsOf(reply: unknown): Fields {
  if (!Array.isArray(reply)) return (reply instanceof Map ? Object.fromEntries(reply) : (reply ?? {})) as Fields
  const words = reply.map(String)
  return Object.fromEntries(words.flatMap((word, index) => (index % 2 === 0 ? [[word, words[index + 1]]] : [])))
}
