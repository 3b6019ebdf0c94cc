/** A deadlock is named, and nothing is that is none. */
import type { Deadlocks } from '../../src/index.js'
import { monotonicMs } from '../support/beliefs.js'
import { sleep } from '../support/wait-until.js'
import { holdfast } from './command.js'
import type { Place } from './place.js'
import { PAUSE_MS, type Workers } from './workers.js'

export interface DeadlockFindings {
  /** From the second wait until the deadlock was named, ms: by `client.fleet`, and by `holdfast`. */
  readonly namedMs: { readonly api: number; readonly command: number }
  /** Deadlocks among locks that were taken in one order. */
  readonly phantoms: number
  /** Possible ones: of a client with several tasks, others cannot know which of its holds a wait keeps from ending. */
  readonly suspected: number
  /** How often somebody looked, and how many bodies ran meanwhile. */
  readonly looks: number
  readonly bodies: number
  readonly found: readonly string[]
}

const CROSSED = ['dead:a', 'dead:b'] as const
const NAMES = Array.from({ length: 12 }, (_, at) => `storm:${at}`)
/** Every so many looks are made by `holdfast`. */
const BY_COMMAND = 20
const GIVE_UP_MS = 30_000

export async function findDeadlocks(place: Place, workers: Workers, seconds: number): Promise<DeadlockFindings> {
  const found: string[] = []
  const namedMs = await nameOne(place, workers, found)
  return { namedMs, ...(await nameNone(place, workers, seconds, found)), found }
}

async function nameOne(
  place: Place,
  { all, operator }: Workers,
  found: string[],
): Promise<DeadlockFindings['namedMs']> {
  const pair = all.slice(0, 2)
  const holders: string[] = []
  for (const [at, worker] of pair.entries()) {
    worker.send({ do: 'nest', outer: CROSSED[at] ?? '', inner: CROSSED[1 - at] ?? '' })
    holders.push((await worker.next('outer')).holder ?? '')
  }
  for (const worker of pair) worker.send({ do: 'cross' })
  const since = Math.max(
    ...(await Promise.all(pair.map((worker) => worker.next('crossing')))).map(({ time = 0 }) => time),
  )
  const named = async (look: () => Promise<Deadlocks | undefined>): Promise<number> => {
    while (monotonicMs() < since + GIVE_UP_MS) {
      const [cycle, ...others] = (await look())?.cycles ?? []
      const seen = cycle && `${cycle.locks.join()} of ${cycle.owners.map(({ holder }) => holder).join()}`
      if (seen === `${CROSSED.join()} of ${holders.join()}` && others.length === 0)
        return Math.round(monotonicMs() - since)
      if (seen !== undefined) found.push(`the deadlock was named ${seen}`)
      await sleep(PAUSE_MS)
    }
    return GIVE_UP_MS
  }
  const [api, command] = await Promise.all([
    named(async () => await operator.fleet.deadlocks()),
    named(async () => (await holdfast<Deadlocks>(place, 'deadlocks')).lines[0]),
  ])
  await operator.fleet.forceUnlock(CROSSED[0], { holder: holders[0] ?? '' })
  for (const worker of pair) await worker.next('ended')
  return { api, command }
}

async function nameNone(place: Place, { all, operator }: Workers, seconds: number, found: string[]) {
  for (const [seed, worker] of all.entries()) worker.send({ do: 'storm', names: NAMES, seed })
  let [looks, phantoms, suspected] = [0, 0, 0]
  for (const endsAt = monotonicMs() + seconds * 1_000; monotonicMs() < endsAt; await sleep(PAUSE_MS)) {
    const isByCommand = ++looks % BY_COMMAND === 0
    const seen = isByCommand
      ? (await holdfast<Deadlocks>(place, 'deadlocks')).lines[0]
      : await operator.fleet.deadlocks()
    phantoms += seen?.cycles.length ?? 0
    suspected += seen?.suspected.length ?? 0
    for (const { locks, owners } of seen?.cycles ?? []) {
      found.push(`${locks.join()} of ${owners.map(({ holder }) => holder).join()}`)
    }
  }
  const rests = await Promise.all(all.map((worker) => worker.run({ do: 'rest' })))
  return { phantoms, suspected, looks, bodies: rests.reduce((sum, { count = 0 }) => sum + count, 0) }
}
