// Whether a server is still the master of a Sentinel group.
import { type Clock, threadClock } from '../util/clock.js'
import { within } from '../util/timeout.js'
import type { MasterStatus } from './replicas.js'

export interface SentinelAddress {
  readonly host: string
  readonly port: number
}

/** A connection to one Sentinel. It does not reconnect: a connection that has ended is replaced when it is needed. */
export interface SentinelConnection {
  readonly isOpen: boolean
  call(...command: [string, ...string[]]): Promise<unknown>
  end(): void
}

/** The reply of one Sentinel. */
interface SentinelReply {
  /** The configuration epoch: of the last failover that this Sentinel knows of. */
  readonly epoch: number
  readonly runId: string
  readonly address: string
  readonly flags: string
  /** The server that it names to clients: during a failover the successor. */
  readonly named: string
  /** How many replicas it can reach. */
  readonly replicas: number
  /** How many Sentinels it knows, with itself. */
  readonly sentinels: number
}

/** How long one Sentinel has to reply, ms. A slower one is not waited for until it has replied again. */
const REPLY_MS = 300

/** Asks all Sentinels of a deployment whether a server still is the master. */
export class SentinelMasterStatus {
  #name: string | undefined
  readonly #open: (address: SentinelAddress) => SentinelConnection
  readonly #isDiscovering: boolean
  readonly #clock: Pick<Clock, 'after'>
  readonly #sentinels = new Map<string, Sentinel>()
  /** The address of the server that replaced the one that was checked last. */
  #successor: string | undefined
  /** The run that was checked last. */
  #runId = ''
  /** How the Sentinels have called a run: by a name, say, or by an address behind NAT. */
  #announced: { readonly runId: string; readonly address: string } | undefined
  #isClosed = false

  /**
   * @param name  of the master; undefined: the Sentinels are asked for it
   * @param isDiscovering  whether to ask further Sentinels that the given ones know
   * @param clock  replaced in the simulation
   */
  constructor(
    name: string | undefined,
    addresses: readonly SentinelAddress[],
    open: (address: SentinelAddress) => SentinelConnection,
    isDiscovering: boolean,
    clock: Pick<Clock, 'after'> = threadClock,
  ) {
    this.#name = name
    this.#open = open
    this.#isDiscovering = isDiscovering
    this.#clock = clock
    for (const address of addresses) this.add(address)
  }

  add(address: SentinelAddress): void {
    const key = `${address.host}:${address.port}`
    if (this.#sentinels.has(key)) return
    this.#sentinels.set(key, { address, connection: undefined, isSilent: false })
  }

  /**
   * @param runId  identifies the current run of the server
   * @param address  of the server, if that is known. Sentinels may write it differently: as a name, or from behind NAT
   * @returns undefined if no Sentinel replied, or after `close()`: a grant may still be confirmed then, and a connection that
   *   is opened for it would never be ended
   */
  async of(runId: string, address: string | undefined): Promise<MasterStatus | undefined> {
    this.#runId = runId
    const sentinels = [...this.#sentinels.values()]
    const isAnyResponsive = sentinels.some(({ isSilent }) => !isSilent)
    const ask = (some: readonly Sentinel[]): Promise<(SentinelReply | undefined)[]> =>
      Promise.all(
        some.map((sentinel) => {
          const reply = this.#query(sentinel, runId)
          return isAnyResponsive && sentinel.isSilent ? undefined : reply
        }),
      )
    const replies = await ask(sentinels)
    replies.push(...(await ask([...this.#sentinels.values()].slice(sentinels.length)))) // those that were named just now
    // A Sentinel that missed the last failover is overruled by those that did not.
    const latest = replies.reduce((best, one) => (one && (!best || one.epoch > best.epoch) ? one : best), undefined)
    if (!latest) return undefined
    const peers = replies.filter((one) => one !== undefined && one.epoch === latest.epoch) as SentinelReply[]
    // One that has lost the server knows nothing of it: the others may be replacing it.
    const seeing = peers.filter(({ flags }) => !isDown(flags))
    // Only they know which of the others are gone for good.
    const all = this.#isDiscovering ? Math.max(...peers.map(({ sentinels }) => sentinels)) : this.#sentinels.size
    const status = {
      replicas: Math.max(...peers.map(({ replicas }) => replicas)),
      isConfirmed: seeing.length * 2 > all,
      isPartial: replies.filter((one) => one !== undefined).length < all,
    }
    if (latest.runId !== '' && latest.runId === runId) this.#announced = { runId, address: latest.address }
    const announced = this.#announced?.runId === runId ? this.#announced.address : undefined
    const isOurs = announced === latest.address || latest.address === address
    // For about a second after a failover, Sentinels do not know the run of the new master; we may not know our name either.
    if (!isOurs && latest.runId === '' && announced === undefined)
      return { ...status, refusal: 'the Sentinels do not know yet which run it is' }
    // During its failover a Sentinel already names the successor, but still describes the previous master.
    const successor = isOurs ? peers.find((one) => one.named !== one.address) : latest
    this.#successor = successor?.named
    if (successor) {
      return { ...status, refusal: `the Sentinels name ${successor.named} as the master`, isReplaced: true }
    }
    const isDoubted = peers.some(({ flags }) => /\b(failover_in_progress|o_down)\b/.test(flags))
    return isDoubted ? { ...status, refusal: 'the Sentinels are about to replace it' } : status
  }

  /**
   * The Sentinels that reply now, the best informed first, for a client that believes the first one. If the server that was
   * checked last was replaced, only those that describe its successor: one learns of a failover that another one led up to
   * two seconds later.
   * @throws {Error} none does yet
   */
  async responding(): Promise<SentinelAddress[]> {
    const sentinels = [...this.#sentinels.values()]
    const replies = await Promise.all(sentinels.map((sentinel) => this.#query(sentinel, this.#runId)))
    const responding = sentinels.flatMap(({ address }, index) => {
      const reply = replies[index]
      return reply ? [{ address, reply }] : []
    })
    const informed = responding.filter(({ reply }) => [undefined, reply.address].includes(this.#successor))
    if (informed.length === 0 && responding.length > 0) throw new Error('the failover is not over yet')
    return informed.sort((one, other) => other.reply.epoch - one.reply.epoch).map(({ address }) => address)
  }

  close(): void {
    this.#isClosed = true
    for (const { connection } of this.#sentinels.values()) connection?.end()
    this.#sentinels.clear()
  }

  /** Never rejects. */
  async #query(sentinel: Sentinel, runId: string): Promise<SentinelReply | undefined> {
    if (this.#isClosed) return undefined
    try {
      if (!sentinel.connection?.isOpen) sentinel.connection = this.#open(sentinel.address)
      const { connection } = sentinel
      const reply = await within(REPLY_MS, this.#replyOf(connection, runId), undefined, this.#clock)
      sentinel.isSilent = false
      return reply
    } catch {
      sentinel.isSilent = true
      sentinel.connection?.end()
      sentinel.connection = undefined
      return undefined
    }
  }

  async #replyOf(connection: SentinelConnection, runId: string): Promise<SentinelReply> {
    const name = this.#name ?? (await nameOf(connection, runId))
    this.#name = name
    const query = (what: string): Promise<unknown> => connection.call('SENTINEL', what, name)
    const [named, master, replicas, others] = await Promise.all([
      query('GET-MASTER-ADDR-BY-NAME'),
      query('MASTER'),
      query('REPLICAS'),
      this.#isDiscovering ? query('SENTINELS') : [],
    ])
    for (const { ip = '', port, flags } of (others as unknown[]).map(fieldsOf)) {
      if (!isDown(flags)) this.add({ host: ip, port: Number(port) })
    }
    const { ip, port, runid = '', flags = '', 'config-epoch': epoch } = fieldsOf(master)
    return {
      epoch: Number(epoch),
      runId: runid,
      address: `${ip}:${port}`,
      flags,
      named: (named as unknown[]).map(String).join(':'),
      replicas: (replicas as unknown[]).filter((replica) => !isDown(fieldsOf(replica)['flags'])).length,
      sentinels: (others as unknown[]).length + 1,
    }
  }
}

interface Sentinel {
  readonly address: SentinelAddress
  connection: SentinelConnection | undefined
  isSilent: boolean
}

/** The name that a Sentinel gives to the master with this run id, or to the only master that it monitors. */
async function nameOf(connection: SentinelConnection, runId: string): Promise<string> {
  const masters = ((await connection.call('SENTINEL', 'MASTERS')) as unknown[]).map(fieldsOf)
  const master = masters.length === 1 ? masters[0] : masters.find(({ runid }) => runid === runId)
  if (master?.['name'] === undefined) throw new Error('the Sentinel monitors several masters, and this is none of them')
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
