/**
 * A process whose tasks run sections of every kind, and immediately report what they hold. Argument: its `Task`, as JSON.
 * Command `prove`: report when every kind was served since. Command `end`: let running sections end.
 */
import { type Client, type ConnectOptions, connect } from '../../../src/index.js'
import { onCommand, report } from '../../support/processes/child.js'
import { settlesWithin, sleep } from '../../support/wait-until.js'
import { monotonicMs } from '../beliefs.js'
import { randomOf } from '../random.js'
import { countIn, nameOf, type Tally } from '../tally.js'
import type { Found, Served, Summary, Task } from './messages.js'
import { GuardedRecord } from './record.js'
import { BROKEN, HONEST } from './sabotage.js'
import { NEEDS_LIFE, SECTIONS, type Worker } from './sections.js'
import { Stays } from './stays.js'

const task: Task = JSON.parse(process.argv[2] ?? '')
/** Longer than any call may take without faults. */
const SETTLE_MS = task.control ? 3_000 : 30_000

const random = randomOf(task.seed)
const errors: Tally = {}
const latches: string[] = []
const pending = new Set<{ readonly name: string }>()
let unproven = new Set<string>()
let isProving = false
let isOver = false
let serial = 0

const find = (finding: Omit<Found, 'at' | 'to'>): void => report({ at: 'finding', ...finding, to: monotonicMs() })
const record = new GuardedRecord(task.recordUrl)
const stays = new Stays({ record, random, find, leaseMs: task.leaseMs })
const client = await open(task.target)
const worker: Worker = {
  client,
  redClients: await Promise.all(task.redUrls.map((url) => open({ url }))),
  isReplicated: task.isReplicated,
  random,
  leaseMs: task.leaseMs,
  redisUrl: task.target.url ?? '',
  stay: stays.stay,
  fresh: (name) => `${name}:${process.pid}:${++serial}`,
  fail: (what, from) => find({ verdict: 'failure', what, from }),
  mayStay: (latch) => latches.push(latch),
}
const sections = task.control === 'broken' ? BROKEN : task.control === 'honest' ? HONEST : SECTIONS
const names = Object.keys(sections).filter(
  (name) => !(task.isMortal && NEEDS_LIFE.has(name)) && !(name === 'red' && task.redUrls.length === 0),
)
const running = task.control ? names.map((name) => run(() => name)) : Array.from({ length: task.tasks }, () => run(any))
const stop = onCommand<{ at: string }>(async ({ at }) => {
  if (at === 'prove') prove()
  if (at === 'end') await end()
})

/** Retries until the servers are reachable: faults may have begun. */
async function open(target: ConnectOptions): Promise<Client> {
  const { leaseMs: lockWatchdogTimeoutMs, isReplicated } = task
  // A client of one server knows soon that a reply is missing; one that looks for a new master has the default patience.
  const options = { lockWatchdogTimeoutMs, ...(isReplicated ? {} : { commandTimeoutMs: 400 }) }
  for (;;) {
    try {
      return await connect({ ...target, ...options })
    } catch {
      await sleep(50)
    }
  }
}

function any(): string {
  const among = isProving && unproven.size > 0 ? [...unproven] : names
  return among[random(among.length)] as string
}

async function run(choose: () => string): Promise<void> {
  while (!isOver) {
    const name = choose()
    const call = { name }
    pending.add(call)
    try {
      await sections[name]?.(worker)
      proven(name)
    } catch (error) {
      note(name, error)
    }
    pending.delete(call)
    await sleep(random(10))
  }
}

function note(name: string, error: unknown): void {
  const { reason, name: kind } = error as Error & { reason?: unknown }
  const known = typeof reason === 'string' ? `${nameOf(error)} ${reason}` : nameOf(error)
  const what = kind === 'TimeoutError' ? 'aborted' : known
  countIn(errors, `${name}: ${what}`)
  if (name === 'aborted' && what === 'aborted') proven(name)
}

/** All faults are over: from now on each kind has to work again. */
function prove(): void {
  unproven = new Set(names.filter((name) => !(task.isReplicated && NEEDS_LIFE.has(name))))
  isProving = true
  reportProven()
}

function proven(name: string): void {
  if (isProving && unproven.delete(name)) reportProven()
}

function reportProven(): void {
  const served: Served = { at: 'served', unserved: [...unproven] }
  report(served)
}

async function end(): Promise<void> {
  isOver = true
  await settlesWithin(Promise.all(running), SETTLE_MS).catch(() => {})
  const summary: Summary = { at: 'summary', errors, pending: [...pending].map(({ name }) => name), latches }
  report(summary)
  stays.end()
  record.end()
  await settlesWithin(Promise.all([client, ...worker.redClients].map((each) => each.close())), SETTLE_MS).catch(
    () => {},
  )
  stop()
}
