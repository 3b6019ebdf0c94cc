import { lockOfKind } from '../../../src/client.js'
import {
  type BaseLock,
  type Client,
  getMultiLock,
  getRedLock,
  type Lock,
  type OrderOptions,
} from '../../../src/index.js'
import { KINDS, type NamedKindId } from '../../../src/locks/kinds/table.js'
import { sleep } from '../../support/wait-until.js'
import { monotonicMs } from '../beliefs.js'
import { PERMITS, SEMAPHORE } from './messages.js'
import type { Held } from './stays.js'

/** What a section needs from its worker. */
export interface Worker {
  readonly client: Client
  readonly redClients: readonly Client[]
  /** See `Task`. */
  readonly isReplicated: boolean
  readonly leaseMs: number
  /** The server, if it is a single one. */
  readonly redisUrl: string
  /** From 0 to below `n`. */
  random(n: number): number
  /** Stays inside for a while, as long as the hold lasts, and records it: next to others, or nested in its own section. */
  stay(
    kind: string,
    locks: readonly string[],
    hold: Held | undefined,
    how?: 'shared' | 'nested',
    holdMs?: number,
  ): Promise<void>
  /** A name used by nobody else. */
  fresh(name: string): string
  /** A violation. @param since on the monotonic clock: what servers lost since then may be the reason */
  fail(what: string, since: number): void
  /** A latch that may exist, now or later. */
  mayStay(latch: string): void
}

export type Section = (worker: Worker) => Promise<void>

const pick = <T>(worker: Worker, ...choices: readonly T[]): T => choices[worker.random(choices.length)] as T

/** Most wait for a limited time, some without a limit; most are renewed, some have a fixed lease. */
function terms(worker: Worker): { waitTimeMs?: number; leaseTimeMs?: number } {
  return {
    ...(worker.random(3) > 0 ? { waitTimeMs: worker.random(3_000) } : {}),
    ...(worker.random(4) === 0 ? { leaseTimeMs: 2_000 + worker.random(1_000) } : {}),
  }
}

/** Exclusive sections, sometimes nested. */
async function alone(
  worker: Worker,
  kind: string,
  lock: BaseLock,
  locks: readonly string[],
  again = false,
): Promise<void> {
  await lock.withLock(terms(worker), async (hold) => {
    await worker.stay(kind, locks, hold)
    if (again && worker.random(4) === 0)
      await lock.withLock(async (inner) => await worker.stay(kind, locks, inner, 'nested'))
  })
}

function exclusive(kind: string, id: NamedKindId, names: readonly string[]): Section {
  const { isReentrant = true } = KINDS[id]
  return async (worker) => {
    const name = pick(worker, ...names)
    await alone(worker, kind, lockOfKind(worker.client, id, name), [name], isReentrant)
  }
}

const PLAIN = ['chaos:plain:1', 'chaos:plain:2'] as const
const FAIR = ['chaos:fair:1', 'chaos:fair:2'] as const
const SHARED = ['chaos:read-write:1', 'chaos:read-write:2'] as const

/** One section of each kind. */
export const SECTIONS: Readonly<Record<string, Section>> = {
  plain: exclusive('plain', 'lock', PLAIN),
  'non-reentrant': exclusive('non-reentrant', 'nonReentrant', ['chaos:once']),
  fair: exclusive('fair', 'fair', FAIR),
  'non-reentrant fair': exclusive('non-reentrant fair', 'nonReentrantFair', ['chaos:fair-once']),
  fenced: exclusive('fenced', 'fenced', ['chaos:fenced']),
  reckless,
  spin: exclusive('spin', 'spin', ['chaos:spin']),
  string: exclusive('string', 'string', ['chaos:string']),
  read,
  write,
  'read in order': readInOrder,
  'write in order': writeInOrder,
  values,
  multi,
  red,
  permits,
  semaphore,
  latch,
  aborted,
}

/** Keys whose slots move. Not those of read-write locks: docs/guarantees.md excepts them. */
export const FOR_SLOTS: readonly string[] = [...PLAIN, ...FAIR, 'chaos:fenced', 'chaos:string', 'chaos:values', PERMITS]

/** Sections without an owner in Redis: what they acquired is gone if their process dies, or a server loses its release. */
export const NEEDS_LIFE: ReadonlySet<string> = new Set(['semaphore', 'latch'])

/** Writes whether or not it still holds the lock: a store that checks tokens is safe from that. */
async function reckless(worker: Worker): Promise<void> {
  await worker.client.getFencedLock('chaos:fenced').withLock(terms(worker), async (hold) => {
    const held = {
      signal: hold.signal,
      remainingMs: () => hold.remainingMs(),
      fencingToken: hold.fencingToken,
      isReckless: true,
    }
    await worker.stay(
      'reckless',
      ['chaos:fenced'],
      held,
      undefined,
      worker.random(4) === 0 ? 300 + worker.random(700) : worker.random(20),
    )
  })
}

async function read(worker: Worker): Promise<void> {
  const name = pick(worker, ...SHARED)
  const lock = worker.client.getReadWriteLock(name).readLock()
  await lock.withLock(terms(worker), async (hold) => await worker.stay('read', [name], hold, 'shared'))
}

/** Every other one continues as a reader. */
async function write(worker: Worker): Promise<void> {
  const name = pick(worker, ...SHARED)
  const { client } = worker
  const lock = client.getReadWriteLock(name)
  await using write = await lock.writeLock().lock(terms(worker))
  await worker.stay('write', [name], write)
  if (worker.random(2) === 0) return
  await using read = await lock.readLock().lock({ within: write })
  await write.unlock()
  await worker.stay('downgrade', [name], read, 'shared')
}

const IN_ORDER = 'chaos:ordered'
const ordered = ({ client }: Worker) => client.getReadWriteLock(IN_ORDER, { order: 'fifo' })

async function readInOrder(worker: Worker): Promise<void> {
  const options = { ...terms(worker), priority: worker.random(2) }
  await ordered(worker)
    .readLock()
    .withLock(options, async (hold) => await worker.stay('read in order', [IN_ORDER], hold, 'shared'))
}

async function writeInOrder(worker: Worker): Promise<void> {
  await alone(worker, 'write in order', ordered(worker).writeLock(), [IN_ORDER], true)
}

async function values(worker: Worker): Promise<void> {
  const wanted = ['a', 'b', 'c', 'd', 'e'].filter(() => worker.random(5) < 2)
  if (wanted.length === 0) wanted.push('a')
  const locks = wanted.map((value) => `chaos:values ${value}`)
  await alone(worker, 'values', worker.client.getFasterMultiLock('chaos:values', wanted), locks, true)
}

/** In any order, with locks that others acquire alone. */
async function multi(worker: Worker): Promise<void> {
  const { client } = worker
  const members: [string, Lock][] = [
    [PLAIN[0], client.getLock(PLAIN[0])],
    [PLAIN[1], client.getLock(PLAIN[1])],
    [FAIR[0], client.getFairLock(FAIR[0])],
  ]
  const chosen = members.toSorted(() => worker.random(3) - 1).slice(0, 2 + worker.random(2))
  await alone(
    worker,
    'multi',
    getMultiLock(...chosen.map(([, lock]) => lock)),
    chosen.map(([name]) => name),
  )
}

async function red(worker: Worker): Promise<void> {
  const lock = getRedLock(...worker.redClients.map((client) => client.getLock('chaos:red')))
  await alone(worker, 'red', lock, ['chaos:red'])
}

/** Those with an order and those without exclude each other. */
const anyOrder = (worker: Worker): OrderOptions => (worker.random(2) === 0 ? {} : { order: 'fifo' })

async function permits(worker: Worker): Promise<void> {
  const semaphore = worker.client.getPermitExpirableSemaphore(PERMITS, anyOrder(worker))
  await semaphore.withPermit(terms(worker), async (permit) => await worker.stay('permits', [PERMITS], permit, 'shared'))
}

async function semaphore(worker: Worker): Promise<void> {
  const { waitTimeMs = worker.isReplicated ? 3_000 : undefined } = terms(worker)
  await worker.client
    .getSemaphore(SEMAPHORE, anyOrder(worker))
    .withPermit({ waitTimeMs }, async () => await worker.stay('semaphore', [SEMAPHORE], undefined, 'shared'))
}

/** Opens after three count-downs, and not before. */
async function latch(worker: Worker): Promise<void> {
  const name = worker.fresh('chaos:latch')
  const since = monotonicMs()
  const latch = worker.client.getCountDownLatch(name)
  try {
    if (!(await latch.trySetCount(3))) return worker.fail(`latch ${name} existed before it was created`, since)
    await worker.stay('latch', [name], undefined)
    let counted = 0
    const opened = latch.await({ waitTimeMs: 30_000 }).then((isOpen) => {
      if (!isOpen) worker.fail(`latch ${name} did not open`, since)
      else if (counted < 3) worker.fail(`latch ${name} opened after ${counted} of 3`, since)
    })
    const counts = [1, 2, 3].map(async () => {
      await sleep(worker.random(30))
      counted++
      await latch.countDown()
    })
    const outcomes = await Promise.allSettled([...counts, opened])
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
  } catch (error) {
    worker.mayStay(name)
    throw error
  }
}

/** Calls whose callers leave while they wait. */
async function aborted(worker: Worker): Promise<void> {
  const { client } = worker
  const lock = pick<BaseLock>(
    worker,
    client.getFairLock(FAIR[0]),
    client.getReadWriteLock(SHARED[0]).writeLock(),
    client.getFasterMultiLock('chaos:values', ['a', 'b']),
    getMultiLock(client.getLock(PLAIN[0]), client.getLock(PLAIN[1])),
    client.getLock(PLAIN[0]),
  )
  await lock.withLock({ signal: AbortSignal.timeout(worker.random(60)) }, () => {})
}
