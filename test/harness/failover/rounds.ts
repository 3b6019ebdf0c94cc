import type { ClientOptions } from '../../../src/index.js'
import { measureLateness } from '../../support/lateness.js'
import { type Child, spawnChild } from '../../support/processes/child.js'
import { sleep } from '../../support/wait-until.js'
import { Connections } from './connections.js'
import { type Belief, monotonicMs, type Overlap, overlapsIn, type Pair, staleTokensIn } from './record.js'
import type { Fault, Topology } from './topology.js'
import { WAYS } from './ways.js'

/** Before and after the fault, ms. */
const STORM_MS = 1_000
/** How long beyond the limit to wait for a client that was not served, ms. */
const LATE_MS = 10_000
const OPEN_MS = 30_000
/** More than a process needs to finish. */
const END_MS = 40_000
/** An unrenewed lease survives a failover. */
const OPTIONS: ClientOptions = { lockWatchdogTimeoutMs: 10_000 }

export interface Round {
  readonly grants: number
  readonly overlaps: readonly Overlap[]
  readonly staleTokens: readonly Pair[]
  /** For each way to connect, the time until its clients were served again, ms; infinite if one was not. */
  readonly recoveryMs: Readonly<Record<string, number>>
  /** By how much timers fired late meanwhile, ms: on a busy machine the limit is wider by that. */
  readonly latenessMs: number
  /** Number of calls by error and by way to connect. */
  readonly errors: Readonly<Record<string, Readonly<Record<string, number>>>>
  /** Connections that the clients had more of afterwards, as text. */
  readonly leftover: readonly string[]
  /** Other violations: a call that never settled, a process that ended. */
  readonly failures: readonly string[]
  /** When service was possible again, on the monotonic clock, and how long it was not, ms. */
  readonly since: number
  readonly outageMs: number
}

interface ClientRecord {
  readonly failures: readonly string[]
  readonly beliefs: readonly Belief[]
  readonly errors: Readonly<Record<string, number>>
}

/** The clients of one topology: a process for each way to connect. */
export class Clients implements AsyncDisposable {
  readonly #topology: Topology
  readonly #options: ClientOptions
  readonly #seed: number
  readonly #children = new Map<string, Child>()
  readonly #connections: Connections

  constructor(topology: Topology, options: ClientOptions, seed: number) {
    this.#topology = topology
    this.#options = { ...OPTIONS, ...options }
    this.#seed = seed
    this.#connections = new Connections(topology)
  }

  get ways(): string[] {
    return Object.keys(WAYS[this.#topology.name])
  }

  async open(): Promise<void> {
    await Promise.all(this.ways.map((way) => this.#spawn(way)))
  }

  /** One round of a fault: what each client believed meanwhile, and when it was served again. Then servers are healed. */
  async run(fault: Fault): Promise<Round> {
    let since = Number.POSITIVE_INFINITY
    let latenessMs = 0
    let clients = [false]
    for (const way of fault.without ?? []) await this.#leaveOut(way)
    const ways = [...this.#children.keys()]
    this.#sendAll({ at: 'begin' })
    await sleep(STORM_MS)
    await this.#connections.count(ways)
    const injectedAt = monotonicMs()
    await fault.inject({
      restored: async (at) => {
        since = at
        const lateness = measureLateness()
        await this.#allServed(since, fault.limitMs + LATE_MS)
        latenessMs = lateness()
      },
      holdLong: () => this.#sendAll({ at: 'holdLong' }),
      flap: (ports) => {
        clients = [false, true]
        this.#sendAll({ at: 'flap', ports })
      },
      change: (to) => this.#sendAll({ at: 'change', ...to }),
    })
    await sleep(STORM_MS)
    this.#sendAll({ at: 'end' })
    const records = await Promise.all(ways.map((way) => this.#recordOf(way)))
    const beliefs = records.flatMap((record) => record.beliefs)
    const perWay = <T>(of: (record: ClientRecord) => T) =>
      Object.fromEntries(ways.map((way, at) => [way, of(records[at] as ClientRecord)]))
    await this.#topology.heal()
    return {
      grants: beliefs.length,
      overlaps: overlapsIn(beliefs),
      staleTokens: staleTokensIn(beliefs),
      recoveryMs: perWay((record) => Math.max(...clients.map((isFresh) => firstGrantMs(record, isFresh, since)))),
      latenessMs,
      errors: perWay(({ errors }) => errors),
      leftover: await this.#connections.leftover(ways),
      failures: records.flatMap(({ failures }) => failures),
      since,
      outageMs: since - injectedAt,
    }
  }

  /** Replaces clients that did not recover or were left out, so that they do not affect the next round. */
  async replace(ways: readonly string[]): Promise<void> {
    await Promise.all(
      ways.map(async (way) => {
        await this.#children.get(way)?.stop()
        await this.#spawn(way)
      }),
    )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#children.values()].map((child) => child.stop()))
  }

  async #spawn(way: string): Promise<void> {
    const { name: topology, addresses } = this.#topology
    const terms = { topology, way, addresses, options: this.#options, seed: this.#seed + way.length }
    const child = spawnChild(new URL('./client-process.js', import.meta.url), [JSON.stringify(terms)])
    this.#children.set(way, child)
    await child
      .nextMessage(({ at }) => at === 'ready', OPEN_MS)
      .catch((error) => {
        throw new Error(`${way} did not connect`, { cause: error })
      })
  }

  async #leaveOut(way: string): Promise<void> {
    await this.#children.get(way)?.stop()
    this.#children.delete(way)
  }

  #sendAll(command: object): void {
    for (const child of this.#children.values()) child.send(command)
  }

  async #allServed(since: number, timeoutMs: number): Promise<void> {
    this.#sendAll({ at: 'restored', since })
    const isServed = ({ at }: { at: string }) => at === 'served'
    const each = [...this.#children.values()].map((child) => child.nextMessage(isServed, timeoutMs))
    await Promise.allSettled(each)
  }

  /** What an ended process believed is lost with it. */
  async #recordOf(way: string): Promise<ClientRecord> {
    const child = this.#children.get(way) as Child
    try {
      return await child.nextMessage<ClientRecord & { at: string }>(({ at }) => at === 'record', END_MS)
    } catch (error) {
      return { beliefs: [], errors: {}, failures: [`${way}: ${String(error)}`] }
    }
  }
}

function firstGrantMs({ beliefs }: ClientRecord, isFresh: boolean, since: number): number {
  const later = beliefs.filter((belief) => belief.isFresh === isFresh && belief.askedAt >= since)
  return Math.min(...later.map(({ from }) => from - since))
}
