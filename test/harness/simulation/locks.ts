import { lockOfKind } from '../../../src/client.js'
import {
  type Client,
  getMultiLock,
  getRedLock,
  type Hold,
  LeaseLostError,
  type Lock,
  type ReadWriteLock,
} from '../../../src/index.js'
import type { BaseLock } from '../../../src/locks/base-lock.js'
import type { NamedKindId } from '../../../src/locks/kinds/table.js'
import type { Lease } from '../../../src/locks/lease.js'
import { type FakeRedis, FakeReplyError } from '../../support/fakes/fake-redis.js'
import { GROUP, holderOfValue, VALUES } from './holders.js'
import type { TroubleName } from './plan.js'
import type { Task } from './task.js'
import type { Workload, Workloads } from './workload.js'
import { LEASE_MS, type Process, type World } from './world.js'

/** Two that share a channel. */
const NAMES = ['a', '{a}']
/** Of multi-locks. */
const PARTS = ['a', 'b', 'c']
const RED_SERVERS = 3
/** Of holders that are interrupted. */
const MAX_GRACE_MS = 1_000

/** A lock to use, and what it is a lock of. */
interface Choice {
  /** The client of the lock: the process may have opened another one since. */
  readonly client: Client
  readonly lock: BaseLock & Partial<Pick<Lock, 'forceUnlock' | 'getHolders' | 'unlock'>>
  readonly resources: readonly string[]
  readonly isShared?: boolean
  /** What to use inside of it, if it is not the same: never another lock, for which others may wait in the opposite order. */
  readonly inner?: () => Choice
}

interface Traits {
  readonly canBeHandedOver?: boolean
  readonly canBeForced?: boolean
  /** By `forceUnlock({ holder })`. */
  readonly canBeInterrupted?: boolean
  /** What its one key is for, if not for itself. */
  readonly resources?: readonly string[]
  /** Its hash has a field for each holder, unless this says otherwise. */
  readonly isHeldBy?: (redis: FakeRedis, resource: string, holder: string) => boolean
  /** What to free by force, if it is not what one uses. */
  readonly chooseForced?: (task: Task) => Choice
}

const isFieldOfHash = (redis: FakeRedis, key: string, holder: string): boolean => redis.isHeldBy(key, holder)
/** A red lock has a holder on each server. */
const isOneOfFields = (redis: FakeRedis, key: string, holders: string): boolean =>
  holders.split(', ').some((holder) => redis.isHeldBy(key, holder))
const isValueOfKey = (redis: FakeRedis, key: string, holder: string): boolean => {
  redis.keyspace.tick()
  return redis.keyspace.read(key, 'string') === holder
}

class LockWorkload implements Workload {
  readonly servers: number
  readonly lasting = /^(redisson_lock_token|holdfast_audit)/
  readonly #choose: (task: Task) => Choice
  readonly #all: (process: Process) => readonly BaseLock[]
  readonly #traits: Traits

  constructor(
    choose: (task: Task) => Choice,
    all: (process: Process) => readonly BaseLock[],
    traits: Traits = {},
    servers = 1,
  ) {
    this.#choose = choose
    this.#all = all
    this.#traits = traits
    this.servers = servers
  }

  resourcesOf(key: string): readonly string[] {
    return this.#traits.resources ?? [key]
  }

  async use(task: Task): Promise<void> {
    const { dice, world } = task
    const isDue = (trouble: TroubleName, share: number): boolean =>
      this.#traits.canBeForced === true && world.plan.troubles.includes(trouble) && dice.chance(share)
    if (isDue('forced', 0.1)) await this.#force(task, (this.#traits.chooseForced ?? this.#choose)(task))
    else if (this.#traits.canBeInterrupted && isDue('interrupted', 0.2)) await this.#interrupt(task, this.#choose(task))
    else await this.#useLock(task, this.#choose(task))
  }

  isHeldInRedis(world: World, resource: string, holder: string): boolean {
    const { isHeldBy = isFieldOfHash } = this.#traits
    // A red lock is held on most of the servers.
    const count = world.servers.filter((redis) => isHeldBy(redis, resource, holder)).length
    return count > world.servers.length / 2
  }

  async recover(world: World): Promise<void> {
    const open = world.processes.filter(({ isClosed }) => !isClosed)
    await Promise.all(
      open.map(async (process) => {
        // A place in a fair queue that a late request took costs the next one a second.
        for (const lock of this.#all(process)) await (await lock.lock({ waitTimeMs: 4_000 })).unlock()
      }),
    )
  }

  async #force(task: Task, { lock, resources }: Choice): Promise<void> {
    const over = resources.map((resource) => task.world.beliefs.forcing(resource))
    task.note(`forces ${lock.name}`)
    const isFreed = await task.tolerate(lock.forceUnlock?.())
    task.note(`has forced ${lock.name}: ${isFreed}`)
    for (const one of over) one(task.world.forcedUntil)
  }

  /** As an operator who interrupts a holder: nobody else may get in before that has stopped, or its grace is over. */
  async #interrupt(task: Task, { lock, resources }: Choice): Promise<void> {
    const { dice, world } = task
    const [first] = (await lock.getHolders?.()) ?? []
    if (!first) return
    const graceMs = dice.between(0, MAX_GRACE_MS)
    const anyway = dice.chance(0.3)
    const over = anyway ? resources.map((resource) => world.beliefs.forcing(resource, first.holder)) : []
    task.note(`interrupts ${first.holder} in ${lock.name}, with ${graceMs} ms${anyway ? ', and frees it anyway' : ''}`)
    const options = { holder: first.holder, graceMs, by: String(graceMs), anyway }
    const result = await task.tolerate(lock.forceUnlock?.(options))
    task.note(`interrupted ${first.holder}: ${result?.outcome}`)
    for (const one of over) one(world.forcedUntil)
  }

  async #useLock(task: Task, choice: Choice): Promise<void> {
    const { client, lock } = choice
    const { dice } = task
    const work = async (hold: Hold): Promise<void> => {
      await this.#workWith(task, hold, choice)
      if (dice.chance(0.3)) await this.#useLock(task, choice.inner?.() ?? choice)
      if (dice.chance(0.1)) await hold.isHeld()
      if (dice.chance(0.1)) throw new FakeReplyError('the body fails')
    }
    const use = dice.pick<() => Promise<unknown>>([
      () => lock.withLock(task.options(), work),
      () => lock.tryWithLock(task.options(), work),
      () => this.#useByHand(task, choice),
      () => client.runInScope(() => this.#useAsJava(task, choice)),
    ])
    await use()
  }

  /** Holds that are passed by hand, re-entered by hand, and handed over. */
  async #useByHand(task: Task, choice: Choice): Promise<void> {
    const { lock } = choice
    const { dice, world } = task
    const hold = dice.chance(0.5) ? await lock.lock(task.options()) : await lock.tryLock(task.options())
    if (!hold) return
    await this.#workWith(task, hold, choice)
    const inner = Array.from({ length: dice.between(0, 2) }, async () => {
      const again = await task.tolerate(lock.tryLock({ ...task.options(), within: hold }))
      if (again) await this.#workWith(task, again, choice)
      await task.tolerate(again?.unlock())
    })
    if (dice.chance(0.5)) await Promise.all(inner)
    if (this.#traits.canBeHandedOver && dice.chance(0.1)) {
      const holder = hold.handOver()
      const other = dice.pick(world.processes)
      task.note(`hands ${lock.name} over to ${other.name}`)
      const there = this.#all(other).find(({ name }) => name === lock.name) as Lock
      const adopted = await there.adopt(holder)
      await this.#workWith(task, adopted, choice, other)
      await adopted.unlock()
    }
    await Promise.all([...inner, hold.unlock(), dice.chance(0.1) ? hold.unlock() : undefined])
  }

  /** As code ported from Java: again and again as one owner, whatever became of the last time. */
  async #useAsJava(task: Task, choice: Choice): Promise<void> {
    const { lock } = choice
    const { dice } = task
    const taken: Hold[] = []
    const rounds = async (): Promise<void> => {
      for (let round = dice.between(1, 3); round > 0; round--) {
        const hold = await task.tolerate(lock.lock(task.options()))
        if (!hold) continue
        await task.tolerate(taken.at(-1)?.unlock()) // too late, or once more: it must not end the new one
        taken.push(hold)
        await this.#workWith(task, hold, choice)
        await task.tolerate(lock.unlock === undefined || dice.chance(0.5) ? hold.unlock() : lock.unlock())
      }
    }
    const sibling = dice.pick<() => unknown>([
      () => {},
      () => rounds(),
      () => task.tolerate(lock.withLock(task.options(), (hold) => this.#workWith(task, hold, choice))),
    ])
    await Promise.all([rounds(), task.pause(300).then(sibling)])
    // An unlock() of the lock may have ended the hold of the sibling instead of its own.
    for (const hold of taken) await task.tolerate(hold.unlock())
  }

  /** @param process  whose client the hold is of, and whose clock counts */
  async #workWith(task: Task, hold: Hold, { resources, isShared }: Choice, process = task.process): Promise<void> {
    const { world, dice } = task
    const { handOffs = 0 } = hold.lease as Partial<Lease>
    world.grants++
    if (handOffs > 0 && hold.count === 1) world.handOffs++
    const stopping = new Stopping(process, hold)
    world.beliefs.holds(hold, resources, isShared, this.servers > 1, () => stopping.isInside)
    task.note(`holds ${resources.join('+')} as ${hold.holder}`)
    await task.pause(dice.chance(0.9) ? 400 : 2 * LEASE_MS)
    stopping.end()
  }
}

/** Work under a hold that an operator has ended: for its grace, and as long as its lease lasts, the lock is still taken. */
class Stopping {
  readonly #process: Process
  readonly #hold: Hold
  #leaseEndsAt = 0
  #graceEndsAt: number | undefined
  #isOver = false

  constructor(process: Process, hold: Hold) {
    this.#process = process
    this.#hold = hold
    this.#leaseEndsAt = process.clock.now() + hold.remainingMs()
  }

  get isInside(): boolean {
    const reason: unknown = this.#hold.signal.reason
    const now = this.#process.clock.now()
    if (this.#hold.isLive) this.#leaseEndsAt = now + this.#hold.remainingMs()
    if (!(reason instanceof LeaseLostError) || reason.reason !== 'forced') return false
    // In a scope, `lock.unlock()` of another task may have ended it.
    if (this.#isOver || this.#process.isClosed || this.#hold.hold.isUnlocked) return false
    this.#graceEndsAt ??= now + Number(reason.forced?.by)
    return now < Math.min(this.#leaseEndsAt, this.#graceEndsAt)
  }

  end(): void {
    this.#isOver = true
  }
}

/** One kind of lock. */
function kind(
  id: NamedKindId,
  traits: Traits,
  lockOf = (client: Client, name: string): Lock => lockOfKind(client, id, name),
): () => Workload {
  return () =>
    new LockWorkload(
      ({ dice, process: { client } }) => {
        const name = dice.pick(NAMES)
        return { client, lock: lockOf(client, name), resources: [name] }
      },
      ({ client }) => NAMES.map((name) => lockOf(client, name)),
      traits,
    )
}

function readWrite(of: (process: Process, name: string) => ReadWriteLock): () => Workload {
  return () =>
    new LockWorkload(
      ({ dice, process }) => {
        const name = dice.pick(NAMES)
        const { client } = process
        const both = of(process, name)
        const choose = (): Choice => {
          const isShared = dice.chance(0.6)
          return {
            client,
            lock: isShared ? both.readLock() : both.writeLock(),
            resources: [name],
            isShared,
            inner: choose,
          }
        }
        return choose()
      },
      (process) => NAMES.map((name) => of(process, name).writeLock()),
      { canBeForced: true, canBeInterrupted: true },
    )
}

const ANY: Traits = { canBeHandedOver: true, canBeForced: true, canBeInterrupted: true }

export const LOCK_WORKLOADS: Workloads = {
  lock: kind('lock', ANY),
  'lock in order': kind('lock', ANY, (client, name) => client.getLock(name, { order: 'fifo' })),
  'non-reentrant lock': kind('nonReentrant', ANY),
  'fair lock': kind('fair', ANY),
  'non-reentrant fair lock': kind('nonReentrantFair', ANY),
  'fenced lock': kind('fenced', ANY),
  'spin lock': kind('spin', ANY),
  'string lock': kind('string', {
    canBeForced: true,
    canBeInterrupted: true,
    isHeldBy: isValueOfKey,
  }),

  'read-write lock': readWrite(({ client }, name) => client.getReadWriteLock(name)),
  'read-write lock in order': readWrite(({ client }, name) => client.getReadWriteLock(name, { order: 'fifo' })),

  'multi-lock of values': () =>
    new LockWorkload(
      ({ dice, process: { client } }) => {
        const some = dice.some(VALUES)
        return { client, lock: client.getFasterMultiLock(GROUP, some), resources: some }
      },
      ({ client }) => [client.getFasterMultiLock(GROUP, VALUES)],
      {
        resources: VALUES,
        canBeForced: true,
        isHeldBy: (redis, value, holder) => holderOfValue(redis, value) === holder,
      },
    ),

  'multi-lock': () =>
    new LockWorkload(
      ({ dice, process: { client } }) => {
        const some = dice.some(PARTS)
        const locks = some.map((name) => client.getLock(name)) as [Lock, ...Lock[]]
        const isSingle = locks.length === 1
        const lock = isSingle ? locks[0] : getMultiLock(...shuffled(locks, dice.chance(0.5)))
        return { client, lock, resources: some }
      },
      ({ client }) => [getMultiLock(...PARTS.map((name) => client.getLock(name)))],
      { canBeForced: true, chooseForced: ({ dice, process }) => oneOf(process.client, dice.pick(PARTS)) },
    ),

  'red lock': () =>
    new LockWorkload(
      ({ process }) => ({ client: process.client, lock: redLock(process), resources: ['a'] }),
      (process) => [redLock(process)],
      {
        canBeForced: true,
        chooseForced: ({ dice, process }) => oneOf(dice.pick(process.clients), 'a'),
        isHeldBy: isOneOfFields,
      },
      RED_SERVERS,
    ),
}

function oneOf(client: Client, name: string): Choice {
  return { client, lock: client.getLock(name), resources: [name] }
}

function redLock({ clients }: Process): BaseLock {
  return getRedLock(...clients.map((client) => client.getLock('a')))
}

function shuffled(locks: readonly Lock[], isReversed: boolean): readonly Lock[] {
  return isReversed ? locks.toReversed() : locks
}
