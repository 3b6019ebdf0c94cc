/** A deadlock is named, and nothing is that is none. */
import type { DeadlocksReply } from '../../../src/dashboard/api.js'
import type { Deadlocks } from '../../../src/index.js'
import { KINDS } from '../../../src/locks/kinds/table.js'
import { sleep, waitUntil } from '../../support/wait-until.js'
import { monotonicMs } from '../beliefs.js'
import { holdfast } from './command.js'
import type { Dashboard } from './dashboard.js'
import { JavaSide } from './java.js'
import type { Servers } from './servers.js'
import { whoIs } from './shown.js'
import { PAUSE_MS, type Worker, type Workers } from './workers.js'

/** From the second wait until the deadlock was named, ms: by `client.fleet`, by `holdfast`, and by the page. */
export type NamedMs = Readonly<Record<'api' | 'command' | 'page', number>>

export interface DeadlockFindings {
  /** Of two processes of the fleet. */
  readonly named: NamedMs
  /** Of one of them and Redisson. */
  readonly namedWithRedisson: NamedMs | undefined
  /** Deadlocks among locks that were taken in one order. */
  readonly phantoms: number
  /** Possible ones: of a client with several tasks, others cannot know which of its holds a wait keeps from ending. */
  readonly suspected: number
  /** How often somebody looked, and how many bodies ran meanwhile. */
  readonly looks: number
  readonly bodies: number
  readonly found: readonly string[]
}

/** What the parts of this programme look at. */
export interface Fixture {
  readonly servers: Servers
  readonly workers: Workers
  readonly dashboard: Dashboard
}

/** Two owners that wait for each other: the first one holds the first lock, and waits for the second. */
interface Deadlock {
  readonly locks: readonly string[]
  readonly holders: readonly string[]
  /** As the page calls them. */
  readonly names: readonly string[]
  /** When the second wait began, on the clock of the machine, ms. */
  readonly since: number
  /** Resolves when both are done, after the first hold was broken. */
  ended(): Promise<unknown>
}

const NAMES = Array.from({ length: 12 }, (_, at) => `storm:${at}`)
/** Every so many looks are made by `holdfast`. */
const BY_COMMAND = 20
const GIVE_UP_MS = 30_000
const LOOK_MS = 50

/** @param withRedisson  crosses a process with Redisson as well */
export async function findDeadlocks(
  fixture: Fixture,
  seconds: number,
  withRedisson: boolean,
): Promise<DeadlockFindings> {
  const found: string[] = []
  await fixture.dashboard.show('graph')
  const named = await nameOne(fixture, await cross(fixture.workers), found)
  const namedWithRedisson = withRedisson ? await nameOneWithRedisson(fixture, found) : undefined
  await fixture.dashboard.show('locks')
  return { named, namedWithRedisson, ...(await nameNone(fixture, seconds, found)), found }
}

async function nameOneWithRedisson(fixture: Fixture, found: string[]): Promise<NamedMs> {
  await using java = await JavaSide.start(fixture.servers)
  return await nameOne(fixture, await crossWithRedisson(fixture.workers, java), found)
}

async function cross({ all }: Workers): Promise<Deadlock> {
  const pair = all.slice(0, 2)
  const locks = ['dead:a', 'dead:b']
  const holders: string[] = []
  for (const [at, worker] of pair.entries()) {
    worker.send({ do: 'nest', kind: KINDS.lock.title, outer: locks[at] ?? '', inner: locks[1 - at] ?? '' })
    holders.push((await worker.next('outer')).holder ?? '')
  }
  for (const worker of pair) worker.send({ do: 'cross' })
  const times = await Promise.all(pair.map(async (worker) => (await worker.next('crossing')).time ?? 0))
  const names = await Promise.all(pair.map(async (worker, at) => whoIs(await worker.say(), holders[at] ?? '')))
  const ended = async (): Promise<unknown> => await Promise.all(pair.map((worker) => worker.next('ended')))
  return { locks, holders, names, since: Math.max(...times), ended }
}

/** Of Redisson the keys name a waiter only in the queue of a fair lock. */
async function crossWithRedisson({ all }: Workers, java: JavaSide): Promise<Deadlock> {
  const worker = all[0] as Worker
  const locks = ['dead:fair:a', 'dead:fair:b'] as const
  worker.send({ do: 'nest', kind: KINDS.fair.title, outer: locks[0], inner: locks[1] })
  const { holder = '' } = await worker.next('outer')
  const other = await java.nest(locks[1], locks[0])
  worker.send({ do: 'cross' })
  await worker.next('crossing')
  const since = monotonicMs()
  const crossed = other.cross()
  const names = [whoIs(await worker.say(), holder), whoIs(java.about, other.holder)]
  const ended = async (): Promise<unknown> => await Promise.all([worker.next('ended'), crossed])
  return { locks, holders: [holder, other.holder], names, since, ended }
}

async function nameOne(
  { servers, workers, dashboard }: Fixture,
  deadlock: Deadlock,
  found: string[],
): Promise<NamedMs> {
  const { locks, holders, names, since, ended } = deadlock
  const named = async (expected: string, look: () => Promise<string[]>): Promise<number> => {
    while (monotonicMs() < since + GIVE_UP_MS) {
      const seen = (await look()).join(' and ')
      if (seen === expected) return Math.round(monotonicMs() - since)
      if (seen !== '') found.push(`the deadlock was named ${seen}, not ${expected}`)
      await sleep(LOOK_MS)
    }
    return GIVE_UP_MS
  }
  const text = `${locks.join()} of ${holders.join()}`
  const sentences = names.map((name, at) => `${name} holds ${locks[at]} and waits for ${locks[1 - at]}`)
  const [api, command, page] = await Promise.all([
    named(text, async () => textsOf(await workers.operator.fleet.deadlocks())),
    named(text, async () => textsOf((await holdfast<Deadlocks>(servers, 'deadlocks')).lines[0])),
    named(sentences.join('; '), async () => await dashboard.deadlocks()),
  ])
  await workers.operator.fleet.forceUnlock(locks[0] ?? '', { holder: holders[0] ?? '' })
  await ended()
  await waitUntil(async () => (await dashboard.deadlocks()).length === 0, {
    timeoutMs: GIVE_UP_MS,
    message: 'the page shows no deadlock any more',
  })
  return { api, command, page }
}

function textsOf(deadlocks: Deadlocks | undefined): string[] {
  return (deadlocks?.cycles ?? []).map(
    ({ locks, owners }) => `${locks.join()} of ${owners.map(({ holder }) => holder).join()}`,
  )
}

async function nameNone({ servers, workers, dashboard }: Fixture, seconds: number, found: string[]) {
  const { all, operator } = workers
  for (const [seed, worker] of all.entries()) worker.send({ do: 'storm', names: NAMES, seed })
  let [looks, phantoms, suspected] = [0, 0, 0]
  for (const endsAt = monotonicMs() + seconds * 1_000; monotonicMs() < endsAt; await sleep(PAUSE_MS)) {
    const isByCommand = ++looks % BY_COMMAND === 0
    const seen = isByCommand
      ? (await holdfast<Deadlocks>(servers, 'deadlocks')).lines[0]
      : await operator.fleet.deadlocks()
    const { cycles: shown } = (await dashboard.get<DeadlocksReply>('deadlocks')).reply
    const onPage = shown.map(({ locks }) => `by the dashboard: ${locks.map(({ name }) => name).join()}`)
    phantoms += (seen?.cycles.length ?? 0) + onPage.length
    suspected += seen?.suspected.length ?? 0
    found.push(...textsOf(seen), ...onPage)
  }
  const rests = await Promise.all(all.map((worker) => worker.run({ do: 'rest' })))
  return { phantoms, suspected, looks, bodies: rests.reduce((sum, { count = 0 }) => sum + count, 0) }
}
