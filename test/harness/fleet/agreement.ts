/** What operators are shown of locks of every kind, against what the processes that hold them and wait for them say. */
import type { LockInfo } from '../../../src/index.js'
import { kinds } from '../../support/kinds.js'
import { sleep } from '../../support/wait-until.js'
import { monotonicMs } from '../beliefs.js'
import type { Place } from '../place.js'
import { holdfast } from './command.js'
import { compare, type Look } from './compare.js'
import type { Dashboard } from './dashboard.js'
import { dashboardAgrees } from './dashboard-agreement.js'
import type { JavaSide } from './java.js'
import { PERMITS, type Said } from './messages.js'
import { PAUSE_MS, type Workers } from './workers.js'

export interface Agreement {
  readonly locks: number
  readonly holders: number
  readonly waiters: number
  /** How many locks were compared, by any of the ways to look. */
  readonly compared: number
  readonly handOffs: number
  readonly differences: readonly string[]
  /** How far durations are off, ms, besides the time that the look took. */
  readonly offMs: { readonly p99: number; readonly max: number }
}

const HAND_OFFS = 1_000
/** Some of them find the lock free. */
const TASKS = 1_010
const HANDED = 'agree:handed'
/** Every lock here, those with a hash tag too. */
const PATTERN = '*agree:*'
/** It ends as soon as all have replied. */
const TIMEOUT_MS = 5_000
const SETTLE_MS = 60_000
/** How often a client may be too slow, and how long until it replies again, ms. */
const MOST_TRIES = 10
const RETRY_MS = 1_000
/** Every third of them has a waiter. */
const isWaitedFor = (process: number, kind: number): boolean => (process + kind) % 3 === 0

const TITLES = [...kinds.map(({ name }) => name), PERMITS]
/** Its members are locks of their own names. */
const isJoint = (title: string): boolean => kinds.some(({ name, isJoint }) => name === title && isJoint)
const nameOf = (title: string, process: number): string => `agree:${title}:${process}`

export async function agree(
  place: Place,
  workers: Workers,
  dashboard: Dashboard,
  java: JavaSide | undefined,
): Promise<Agreement> {
  const waiting = await holdAll(workers)
  const { count: handOffs = 0 } = (await workers.all[0]?.run({ do: 'handOffs', name: HANDED, count: TASKS })) ?? {}
  const ofJava = await java?.take(nameOf('lock', 2), nameOf('fair lock', 2))
  const ask = async (): Promise<Said[]> => [
    ...(await Promise.all(workers.all.map((worker) => worker.say()))),
    ...(ofJava ? [ofJava] : []),
  ]
  await settled(workers, ask, waiting + (ofJava?.waits.length ?? 0))

  const said = await ask()
  const looks = [
    ...(await complete(() => list(workers))),
    ...(await inspectSome(workers)),
    ...(await complete(() => listByCommand(place))),
    ...(await inspectByCommand(place)),
  ]
  const names = new Set(said.flatMap(({ holds }) => holds.map(({ name }) => name)))
  const compared = [
    ...looks.map((look) => compare(look, said)),
    ...(await dashboardAgrees(dashboard, said, [...names], someNames())),
  ]
  const off = compared.flatMap(({ offMs }) => offMs).sort((one, other) => one - other)
  const listed = new Set(looks.map(({ info }) => info.name))
  for (const worker of workers.all) await worker.run({ do: 'rest' })
  return {
    locks: names.size,
    holders: said.flatMap(({ holds }) => holds).length,
    waiters: said.flatMap(({ waits }) => waits).length,
    compared: compared.length,
    handOffs,
    differences: [
      ...compared.flatMap(({ differences }) => differences),
      ...[...names].filter((name) => !listed.has(name)).map((name) => `${name}: it is not listed`),
      ...(handOffs >= HAND_OFFS ? [] : [`only ${handOffs} of ${HAND_OFFS} hand-offs were local`]),
    ],
    offMs: { p99: Math.round(off[Math.floor(off.length * 0.99)] ?? 0), max: Math.round(off.at(-1) ?? 0) },
  }
}

/** Each process takes one of each kind, then others wait for some of them. @returns how many */
async function holdAll({ all }: Workers): Promise<number> {
  const taking = all.map(async (worker, process) => {
    for (const title of TITLES) {
      const kind = kinds.find(({ name }) => name === title)
      // Of string locks Redis does not know the hold count.
      const count = kind?.isReentrant && kind.counts && !kind.isJoint && process % 2 === 1 ? 2 : 1
      const label = `${title} of ${process}`
      await worker.run({ do: 'hold', kind: title, name: nameOf(title, process), label, count })
    }
  })
  await Promise.all(taking)
  let waiting = 0
  for (const [at, title] of TITLES.entries()) {
    if (isJoint(title)) continue
    for (const process of all.keys()) {
      if (!isWaitedFor(process, at)) continue
      const label = `waits for ${title} of ${process}`
      const inside = at % 2 === 0 ? {} : { inside: `agree:inside:${title}:${process}` }
      const waiter = all[(process + 1 + (at % (all.length - 1))) % all.length]
      waiting++
      waiter?.send({ do: 'wait', kind: title, name: nameOf(title, process), label, count: 1, ...inside })
    }
  }
  return waiting
}

/**
 * Resolves when all who are to wait do wait: they begin in the background. If they do not, the comparison says so.
 * @param waiting  how many
 */
async function settled(workers: Workers, ask: () => Promise<Said[]>, waiting: number): Promise<void> {
  for (const endsAt = monotonicMs() + SETTLE_MS; monotonicMs() < endsAt; await sleep(PAUSE_MS)) {
    const said = await ask()
    if (said.flatMap(({ waits }) => waits).length < waiting) continue
    const looks = await list(workers)
    if (looks.length > 0 && looks.every((look) => compare(look, said).differences.length === 0)) return
  }
}

/** Looks again if a client did not reply in time: on a busy machine that is no difference. */
async function complete(look: () => Promise<Look[]>): Promise<Look[]> {
  for (let tries = 1; ; tries++) {
    const looks = await look()
    if (tries === MOST_TRIES || looks.every(({ info }) => info.doubts.length === 0)) return looks
    await sleep(RETRY_MS)
  }
}

async function list({ operator }: Workers): Promise<Look[]> {
  const looks: Look[] = []
  const from = monotonicMs()
  for await (const info of operator.fleet.locks({ match: PATTERN, timeoutMs: TIMEOUT_MS })) {
    looks.push({ info, from, to: monotonicMs() })
  }
  return looks
}

/** One of each kind that somebody waits for. */
function someNames(): string[] {
  return [...TITLES.flatMap((title, at) => (isJoint(title) ? [] : [nameOf(title, (3 - (at % 3)) % 3)])), HANDED]
}

async function inspectSome({ operator }: Workers): Promise<Look[]> {
  const looks: Look[] = []
  for (const name of someNames()) {
    const look = async (): Promise<Look[]> => {
      const from = monotonicMs()
      const info = await operator.fleet.inspect(name, { timeoutMs: TIMEOUT_MS })
      return [{ info, from, to: monotonicMs() }]
    }
    looks.push(...(await complete(look)))
    await sleep(PAUSE_MS)
  }
  return looks
}

async function listByCommand(place: Place): Promise<Look[]> {
  const { lines, from, to } = await holdfast<LockInfo>(place, 'ls', PATTERN, '--timeout', `${TIMEOUT_MS}ms`)
  return lines.filter((line) => !('summary' in line)).map((info) => ({ info, from, to }))
}

async function inspectByCommand(place: Place): Promise<Look[]> {
  const looks: Look[] = []
  for (const name of someNames()) {
    const look = async (): Promise<Look[]> => {
      const { lines, from, to } = await holdfast<LockInfo>(place, 'who', name, '--timeout', `${TIMEOUT_MS}ms`)
      return lines.map((info) => ({ info, from, to }))
    }
    looks.push(...(await complete(look)))
  }
  return looks
}
