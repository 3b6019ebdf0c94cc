/**
 * A process whose tasks run sections of every kind, and immediately report what they hold. Argument: its `Task`, as JSON.
 * The command `end` lets running sections end.
 */
import { type Client, connect, type Hold } from '../../src/index.js'
import { monotonicMs } from '../support/beliefs.js'
import { onCommand, report } from '../support/child.js'
import { randomFrom } from '../support/random.js'
import { settlesWithin, sleep } from '../support/wait-until.js'
import type { Entered, Left, Summary, Task } from './messages.js'
import { NEEDS_LIFE, SECTIONS, type Worker } from './sections.js'

const { url, redUrls, seed, tasks, isMortal, isControl }: Task = JSON.parse(process.argv[2] ?? '')
const OPTIONS = { lockWatchdogTimeoutMs: 3_000, commandTimeoutMs: 400 }
/** Longer than any section may take without faults. */
const SETTLE_MS = 60_000
/** A permit without a lease is held until it is released. */
const WITHOUT_LEASE_MS = 3_600_000

const next = randomFrom(seed)
const random = (n: number): number => Math.floor(next() * n)
const errors: Record<string, number> = {}
const failures: string[] = []
const latches: string[] = []
const pending = new Set<{ readonly name: string }>()
let isOver = false
let serial = 0

const client = await open(url)
const worker: Worker = {
  client,
  redClients: await Promise.all(redUrls.map(open)),
  random,
  stay,
  fresh: (name) => `${name}:${process.pid}:${++serial}`,
  fail: (what) => failures.push(what),
  mayStay: (latch) => latches.push(latch),
}
const names = Object.keys(SECTIONS).filter((name) => !(isMortal && NEEDS_LIFE.has(name)))
const running = Array.from({ length: tasks }, run)
if (isControl) running.push(intrude())
const stop = onCommand<{ at: string }>(async ({ at }) => {
  if (at === 'end') await end()
})
report({ at: 'ready' })

/** Retries until the servers are reachable: the storm may have begun. */
async function open(url: string): Promise<Client> {
  for (;;) {
    try {
      return await connect({ url, ...OPTIONS })
    } catch {
      await sleep(50)
    }
  }
}

async function run(): Promise<void> {
  while (!isOver) {
    const name = names[random(names.length)] as string
    const call = { name }
    pending.add(call)
    try {
      await SECTIONS[name]?.(worker)
    } catch (error) {
      note(name, error)
    }
    pending.delete(call)
    await sleep(random(10))
  }
}

function note(name: string, error: unknown): void {
  const { code, reason, name: kind, message } = error as Error & { code?: unknown; reason?: unknown }
  const known = typeof code === 'string' ? [code, reason].filter((word) => typeof word === 'string').join(' ') : message
  const what = kind === 'TimeoutError' ? 'aborted' : known
  errors[`${name}: ${what}`] = (errors[`${name}: ${what}`] ?? 0) + 1
}

/** For the intended time, or as long as the lease lasts. */
async function stay(
  kind: string,
  locks: readonly string[],
  hold: Hold | undefined,
  how?: 'shared' | 'nested',
): Promise<void> {
  const holdMs = random(20) === 0 ? 50 + random(400) : random(12)
  const from = monotonicMs()
  const leftMs = (): number => (hold ? (hold.signal.aborted ? 0 : hold.remainingMs()) : WITHOUT_LEASE_MS)
  const left = leftMs()
  if (left <= 0) return
  // Only what was read before the lease was read is certain: the process may be stopped in between.
  let validUntil = from + left
  const id = `${process.pid}:${++serial}`
  // A nested hold has the token of the outer one.
  const token = hold?.fencingToken === undefined || how === 'nested' ? {} : { token: String(hold.fencingToken) }
  const entered: Entered = { at: 'enter', id, kind, locks, from, validUntil, isShared: how === 'shared', ...token }
  report(entered)
  let to = monotonicMs()
  while (to < from + holdMs) {
    await sleep(Math.min(10, from + holdMs - to))
    to = monotonicMs()
    const left = leftMs()
    if (left <= 0) break
    validUntil = to + left
  }
  const leaving: Left = { at: 'leave', id, to: Math.min(to, validUntil) }
  report(leaving)
}

/** The control: inside a lock that it did not acquire. */
async function intrude(): Promise<void> {
  while (!isOver) {
    await stay('plain', ['storm:plain:1'], undefined)
    await sleep(random(200))
  }
}

async function end(): Promise<void> {
  isOver = true
  await settlesWithin(Promise.all(running), SETTLE_MS).catch(() => {})
  const summary: Summary = { at: 'summary', errors, failures, pending: [...pending].map(({ name }) => name), latches }
  report(summary)
  await settlesWithin(Promise.all([client, ...worker.redClients].map((each) => each.close())), SETTLE_MS).catch(
    () => {},
  )
  stop()
}
