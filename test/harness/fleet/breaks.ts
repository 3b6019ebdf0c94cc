/** Locks are broken while another process waits for them. */
import { monotonicMs } from '../beliefs.js'
import { effectsOf } from './messages.js'
import { openRaw, type Servers } from './servers.js'
import type { Worker, Workers } from './workers.js'

export interface Breaks {
  readonly n: number
  /** From the call to the abort in the holder's process, ms. */
  readonly p50: number
  readonly p99: number
  readonly max: number
  /** Bodies that began before the one before them had ended, and breaks that went otherwise than they should. */
  readonly violations: number
  /** What was found, the first ones. */
  readonly found: readonly string[]
}

/** Those that one owner at a time holds, under one name. */
const KINDS = [
  'lock',
  'fair lock',
  'non-reentrant lock',
  'non-reentrant fair lock',
  'write lock',
  'fenced lock',
  'spin lock',
  'string lock',
]
const MOST_FOUND = 20
/** Before the last effect of a body, ms. */
const MOST_STOP_MS = 10

interface Segment {
  readonly kind: string
  readonly name: string
  readonly n: number
}

export async function breakLocks(servers: Servers, workers: Workers, n: number): Promise<Breaks> {
  const times: number[] = []
  const found: string[] = []
  for (const [at, kind] of KINDS.entries()) {
    const segment = { kind, name: `break:${kind}`, n: Math.floor((n + at) / KINDS.length) }
    const pair = [0, 1].map((part) => workers.all[(2 * at + part) % workers.all.length]) as [Worker, Worker]
    await takeTurns(workers, pair, segment, times, found)
    found.push(...(await disorderIn(servers, segment)))
  }
  times.sort((one, other) => one - other)
  const at = (share: number): number => Math.round((times[Math.floor(times.length * share)] ?? 0) * 10) / 10
  return {
    n: times.length,
    ...{ p50: at(0.5), p99: at(0.99), max: at(1 - 1e-9) },
    violations: found.length,
    found: found.slice(0, MOST_FOUND),
  }
}

async function takeTurns(
  { operator }: Workers,
  pair: readonly [Worker, Worker],
  { kind, name, n }: Segment,
  times: number[],
  found: string[],
): Promise<void> {
  let [inside, next] = pair
  const enter = async (worker: Worker, turn: number): Promise<void> => {
    worker.send({ do: 'enter', kind, name, stopMs: turn % MOST_STOP_MS })
    await worker.next('asked')
  }
  const interrupt = async (turn: number): Promise<{ ms: number; how: string }> => {
    const { holder = '' } = await inside.next('inside')
    if (turn < n) await enter(next, turn)
    const from = monotonicMs()
    const { outcome } = await operator.fleet.forceUnlock(name, {
      holder,
      by: 'npm run verify -- fleet',
      reason: `break ${turn}`,
    })
    if (outcome !== 'released') return { ms: 0, how: `${name}, ${inside.way}: ${outcome}` }
    const { time = 0, holder: aborted } = await inside.next('aborted')
    const { reason } = await inside.next('ended')
    const isRight = aborted === holder && reason === 'forced'
    return { ms: time - from, how: isRight ? '' : `${name}, ${inside.way}: the body ended with ${reason}` }
  }
  await enter(inside, 0)
  for (let turn = 1; turn <= n; turn++) {
    const { ms, how } = await interrupt(turn - 1)
    times.push(ms)
    if (how !== '') {
      found.push(how)
      if (/silent|not-held/.test(how)) throw new Error(how)
    }
    ;[inside, next] = [next, inside]
  }
  await interrupt(n)
}

/** What a body did before the one before it had done its last. */
async function disorderIn(servers: Servers, { name }: Segment): Promise<string[]> {
  const raw = openRaw(servers.name, servers.url)
  const effects = await raw.lrange(effectsOf(name), 0, -1)
  raw.disconnect()
  return effects.flatMap((effect, at) => {
    const [what, holder] = effect.split(' ')
    const before = at % 2 === 0 ? undefined : effects[at - 1]
    const isRight = at % 2 === 0 ? what === 'in' : effect === `out ${holder}` && before === `in ${holder}`
    return isRight ? [] : [`${name}: ${effects.slice(Math.max(0, at - 2), at + 2).join(', ')}`]
  })
}
