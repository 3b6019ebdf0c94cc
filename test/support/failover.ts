/** Clients that contend for locks while servers fail, and what their history must not show. */
import assert from 'node:assert/strict'
import { Cluster as IoredisCluster, Redis } from 'ioredis'
import { createCluster, createSentinel } from 'redis'
import { endCluster, type NodeRedisClusterLike } from '../../src/adapters/node-redis/cluster.js'
import { type BaseLock, type Client, type ClientOptions, type ConnectOptions, connect } from '../../src/index.js'
import { type Child, spawnChild } from './processes/child.js'
import { settlesWithin, sleep } from './wait-until.js'

/** Where the servers are: Sentinels, or nodes of a cluster. */
export interface Place {
  readonly sentinels?: readonly { readonly host: string; readonly port: number }[]
  readonly masterName?: string
  readonly nodes?: readonly string[]
}

export const DRIVERS = ['ioredis', 'node-redis'] as const
export type DriverName = (typeof DRIVERS)[number]

/**
 * A client of the user, with the default settings of its library. The one exception: ioredis learns of a switch of the
 * master only from a connection that closes, so it would wait for a frozen one for ever; with `failoverDetector` it
 * listens to the Sentinels, as `connect({ config })` and node-redis do by themselves.
 */
async function openUserClient(
  driver: DriverName,
  { sentinels, masterName = '', nodes = [] }: Place,
  options: object = {},
): Promise<{ user: NonNullable<ConnectOptions['client']>; end: () => void }> {
  if (driver === 'ioredis') {
    const user = sentinels
      ? new Redis({ sentinels: [...sentinels], name: masterName, failoverDetector: true, ...options })
      : new IoredisCluster([...nodes], options)
    user.on('error', () => {})
    return { user: user as unknown as NonNullable<ConnectOptions['client']>, end: () => user.disconnect() }
  }
  const user = sentinels
    ? createSentinel({ name: masterName, sentinelRootNodes: [...sentinels], ...options })
    : createCluster({ rootNodes: nodes.map((url) => ({ url })), ...options })
  user.on('error', () => {})
  await user.connect()
  return {
    user: user as unknown as NonNullable<ConnectOptions['client']>,
    end() {
      // `destroy` of a cluster leaves the connections that are being opened, which would keep the process.
      if (!sentinels) endCluster(user as unknown as NodeRedisClusterLike)
      else if (user.isOpen) user.destroy()
    },
  }
}

/** A Holdfast client on a client of the user. */
export async function openClient(
  driver: DriverName,
  place: Place,
  options: ClientOptions = {},
  userOptions: object = {},
): Promise<{ client: Client; end: () => Promise<void> }> {
  const { user, end } = await openUserClient(driver, place, userOptions)
  const client = await connect({ client: user, ...options })
  return {
    client,
    async end() {
      await client.close()
      await end()
    },
  }
}

/** On one clock for all processes of the machine, ms. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

/** One belief: from the grant until the holder released it, was notified of the loss, or its own clock passed the deadline. */
export interface Section {
  readonly lock: string
  readonly by: DriverName
  readonly askedAt: number
  readonly from: number
  readonly to: number
  readonly token?: string
}

export interface History {
  readonly sections: Section[]
  /** How often a call ended with which error. */
  readonly errors: Record<string, number>
  /** What must not happen: an error that nobody expects when a server fails, or a wait in vain after all is healed. */
  readonly failures: string[]
  /** The longest wait for a lock after all was healed. */
  lastWaitMs: number
}

/** What a call may end with while a server fails. */
const EXPECTED = ['LOCK_OUTCOME_UNKNOWN', 'LOCK_NOT_REPLICATED', 'LOCK_LEASE_LOST']
/** During the storm. */
const PATIENCE_MS = 5_000
/** After it: more than a lease, and than a place in the queue of a fair lock whose owner could not leave it. */
const LAST_PATIENCE_MS = 15_000
/** By how much a call may outlast its patience, or a release its lease, before it counts as one that never ends. */
const OVERDUE_MS = 10_000

const CONTENDED: readonly ((client: Client) => BaseLock)[] = [
  (client) => client.getLock('storm:1'),
  (client) => client.getFencedLock('storm:fenced'),
  (client) => client.getFairLock('storm:fair'),
  (client) => client.getReadWriteLock('storm:written').writeLock(),
]

/** Tasks that take and release the same few locks, until they are stopped; then each takes each of them once more. */
export async function contend(
  client: Client,
  by: DriverName,
  { tasks = 4, isOver }: { tasks?: number; isOver: () => boolean },
): Promise<History> {
  const history: History = { sections: [], errors: {}, failures: [], lastWaitMs: 0 }
  await Promise.all(
    Array.from({ length: tasks }, async (_, task) => {
      for (let round = task; !isOver(); round++) {
        await enter(CONTENDED[round % CONTENDED.length] as (typeof CONTENDED)[number], round, false)
      }
      for (const [round, lockOf] of CONTENDED.entries()) await enter(lockOf, round, true)
    }),
  )
  return history

  async function enter(lockOf: (client: Client) => BaseLock, round: number, mustSucceed: boolean): Promise<void> {
    const lock = lockOf(client)
    const note = (error: unknown): void => {
      const { code, message } = error as { code?: string; message: string }
      const name = code ?? message
      history.errors[name] = (history.errors[name] ?? 0) + 1
      if (!EXPECTED.includes(name)) history.failures.push(`${by}: ${String((error as Error).stack)}`)
    }
    const askedAt = monotonicMs()
    try {
      const waitTimeMs = mustSucceed ? LAST_PATIENCE_MS : PATIENCE_MS
      const hold = await ended(lock.tryLock({ waitTimeMs }), `tryLock ${round}`, waitTimeMs + OVERDUE_MS)
      if (!hold) {
        if (mustSucceed) history.failures.push(`${by}: waited in vain for lock ${round + 1} after all was healed`)
        return
      }
      if (mustSucceed) history.lastWaitMs = Math.max(history.lastWaitMs, monotonicMs() - askedAt)
      const from = monotonicMs()
      const deadline = from + hold.remainingMs()
      let lostAt = Number.POSITIVE_INFINITY
      hold.signal.addEventListener('abort', () => {
        const { reason } = hold.signal.reason as { reason?: string }
        lostAt = reason === 'expired' ? Math.min(deadline, monotonicMs()) : monotonicMs()
      })
      // Now and then one that is there when things happen.
      await sleep(round % 31 === 0 ? 150 : 1 + (round % 3))
      const to = Math.min(monotonicMs(), lostAt)
      const { fencingToken } = hold as { fencingToken?: bigint }
      const token = fencingToken === undefined ? {} : { token: String(fencingToken) }
      history.sections.push({ lock: hold.lockName, by, askedAt, from, to, ...token })
      await ended(hold.unlock(), `unlock ${round}`, PATIENCE_MS + OVERDUE_MS)
    } catch (error) {
      note(error)
      if (mustSucceed && !(error as { message: string }).message.includes('unlock')) {
        history.failures.push(`${by}: after all was healed: ${String(error)}`)
      }
    }
  }
}

/** The value, or an error that names what has not ended, before the limit of the test hides it. */
async function ended<T>(promise: Promise<T>, what: string, withinMs: number): Promise<T> {
  await settlesWithin(promise, withinMs).catch(({ message }: Error) => {
    throw new Error(`${what}: ${message}`)
  })
  return await promise
}

/** Pairs of beliefs in the same lock at the same time. */
export function overlaps(sections: readonly Section[]): string[] {
  const found: string[] = []
  const latest = new Map<string, Section>()
  for (const section of [...sections].sort((one, other) => one.from - other.from)) {
    const before = latest.get(section.lock)
    if (before && section.from < before.to) {
      const ms = Math.min(before.to, section.to) - section.from
      found.push(`${section.lock}: ${before.by} and ${section.by} for ${ms.toFixed(1)} ms at ${section.from}`)
    }
    if (!before || section.to > before.to) latest.set(section.lock, section)
  }
  return found
}

/** Grants of a fenced lock whose token is not higher than that of the one before. */
function tokensOutOfOrder(sections: readonly Section[]): string[] {
  const found: string[] = []
  const last = new Map<string, bigint>()
  for (const { lock, token, by } of [...sections].sort((one, other) => one.from - other.from)) {
    if (token === undefined) continue
    const before = last.get(lock) ?? 0n
    if (BigInt(token) <= before) found.push(`${lock}: ${by} got ${token} after ${before}`)
    last.set(lock, BigInt(token))
  }
  return found
}

/** Four clients, two of them in processes of their own, and their tasks. */
export class Storm {
  readonly #children: Child[]
  readonly #clients: Awaited<ReturnType<typeof openClient>>[]
  readonly #own: Promise<History>[]
  #isOver = false

  private constructor(children: Child[], clients: Awaited<ReturnType<typeof openClient>>[]) {
    this.#children = children
    this.#clients = clients
    this.#own = clients.map(({ client }, index) =>
      contend(client, DRIVERS[index] as DriverName, { isOver: () => this.#isOver }),
    )
  }

  static async start(place: Place, options: ClientOptions, userOptions: Partial<Record<DriverName, object>> = {}) {
    const children = DRIVERS.map((driver) =>
      spawnChild(new URL('./processes/storm-process.js', import.meta.url), [
        JSON.stringify({ driver, place, options, userOptions: userOptions[driver] ?? {} }),
      ]),
    )
    const clients = await Promise.all(
      DRIVERS.map((driver) => openClient(driver, place, options, userOptions[driver] ?? {})),
    )
    await Promise.all(children.map((child) => child.nextMessage(({ at }) => at === 'ready')))
    for (const child of children) child.send({ at: 'go' })
    return new Storm(children, clients)
  }

  /** Ends it, and resolves to what all of them saw. Each waiter is served by then, or is among the failures. */
  async stop(): Promise<History> {
    this.#isOver = true
    for (const child of this.#children) child.send({ at: 'stop' })
    const histories = await Promise.all([
      ...this.#own.map((history) => ended(history, 'the tasks of this process', 60_000)),
      ...this.#children.map(
        async (child) =>
          (await child.nextMessage<{ at: string; history: History }>(({ at }) => at === 'done', 60_000)).history,
      ),
    ])
    await Promise.all(this.#clients.map(({ end }, index) => ended(end(), `close of ${DRIVERS[index]}`, OVERDUE_MS)))
    await Promise.all(
      this.#children.map((child, index) =>
        ended(child.exit, `the end of the process with ${DRIVERS[index]}`, OVERDUE_MS).catch((error: Error) => {
          throw new Error(`${error.message}\n${child.stderr}`)
        }),
      ),
    )
    const errors: Record<string, number> = {}
    for (const history of histories) {
      for (const [name, count] of Object.entries(history.errors)) errors[name] = (errors[name] ?? 0) + count
    }
    return {
      sections: histories.flatMap(({ sections }) => sections),
      errors,
      failures: histories.flatMap(({ failures }) => failures),
      lastWaitMs: Math.max(...histories.map(({ lastWaitMs }) => lastWaitMs)),
    }
  }
}

/** Fails if the history shows what must not be. */
export function assertExclusive({ sections, failures }: History): void {
  assert.deepEqual(overlaps(sections), [], 'no two are inside together')
  assert.deepEqual(tokensOutOfOrder(sections), [], 'tokens only rise')
  assert.deepEqual(failures, [])
}

/** How long it took until each driver had its first grant after the fault, and how long none had. */
export function recovery({ sections, errors, lastWaitMs }: History, faultAt: number): string {
  const perDriver = DRIVERS.map((driver) => {
    const own = sections.filter(({ by }) => by === driver).sort((one, other) => one.from - other.from)
    const first = own.find(({ askedAt }) => askedAt >= faultAt)
    let last = faultAt
    let gap = 0
    for (const { from } of own) {
      if (from < faultAt) continue
      gap = Math.max(gap, from - last)
      last = from
    }
    const firstMs = first ? `${Math.round(first.from - faultAt)} ms` : 'never'
    return `${driver}: first new grant after ${firstMs}, longest without one ${Math.round(gap)} ms`
  })
  const counts = Object.entries(errors).map(([name, count]) => `${count} × ${name}`)
  return `${sections.length} sections; ${perDriver.join('; ')}; longest wait after all was healed ${Math.round(lastWaitMs)} ms; errors: ${counts.join(', ') || 'none'}`
}
