import assert from 'node:assert/strict'
import type { OrderOptions } from '../../../src/index.js'
import { SETTLE_MS } from '../../../src/synchronizers/count-once.js'
import type { Dice } from '../../support/dice.js'
import { permitEndsAt } from './holders.js'
import type { Task } from './task.js'
import type { Workload, Workloads } from './workload.js'
import { LONGEST_LEASE_MS, type World } from './world.js'

const PERMITS = 2
/** A semaphore and a latch that are deleted and created again and again. */
const SHORT_LIVED = 'short'
const LATCHES = ['l1', 'l2', 'l3']
/** When a latch that was counted down has certainly opened for everyone, ms. */
const OPENS_WITHIN_MS = 10_000

/** Permits with leases. */
class PermitWorkload implements Workload {
  readonly limits = new Map([['permits', PERMITS]])
  /** The number of free permits, and the leases of the others, which whoever comes next removes. */
  readonly lasting = /^(permits|\{permits\}:timeout)$/
  readonly resourcesOf = (): string[] => ['permits']

  constructor(readonly options: OrderOptions = {}) {}

  async prepare({ processes }: World): Promise<void> {
    await processes[0]?.client.getPermitExpirableSemaphore('permits', this.options).trySetPermits(PERMITS)
  }

  async use(task: Task): Promise<void> {
    const { world, dice } = task
    const semaphore = task.process.client.getPermitExpirableSemaphore('permits', this.options)
    const { leaseTimeMs, waitTimeMs, signal } = task.options()
    const permits = dice.chance(0.2) ? 2 : 1
    const permit = await semaphore.acquire({
      leaseTimeMs,
      waitTimeMs: waitTimeMs ?? 3_000,
      signal,
      permits,
      ...priorityIn(this.options, dice),
    })
    world.grants++
    for (let n = 0; n < permits; n++) world.beliefs.holds(permit, ['permits'])
    task.note(`has ${permits} permits`)
    await task.pause(dice.chance(0.9) ? 400 : 6_000)
    // The hold does not learn of it, so the lease must not end sooner than it believes.
    const [id = ''] = permit.permitIds
    for (let updates = dice.chance(0.3) ? 2 : 0; updates > 0; updates--) {
      await task.tolerate(semaphore.updateLeaseTime(id, LONGEST_LEASE_MS))
      await task.pause(500)
    }
    await permit.unlock()
  }

  isHeldInRedis({ redis }: World, _: string, holder: string): boolean {
    return holder.split(',').every((id) => permitEndsAt(redis, id) > 0)
  }

  async recover({ processes }: World): Promise<void> {
    const open = processes.filter(({ isClosed }) => !isClosed)
    for (const { client } of open) {
      const semaphore = client.getPermitExpirableSemaphore('permits', this.options)
      const permit = await semaphore.acquire({ permits: PERMITS, waitTimeMs: 4_000 })
      await permit.unlock()
      assert.equal(await semaphore.availablePermits(), PERMITS, 'permits are conserved')
    }
  }
}

/** Permits without holders. */
class SemaphoreWorkload implements Workload {
  readonly limits = new Map([['permits', PERMITS]])
  readonly lasting = /^(permits|short|holdfast_generation:.*)$/
  readonly counters = ['permits', SHORT_LIVED]
  /** As long as operations without a reply are retried in the background. */
  readonly settlesInMs = SETTLE_MS

  constructor(readonly options: OrderOptions = {}) {}

  async prepare({ processes }: World): Promise<void> {
    await processes[0]?.client.getSemaphore('permits', this.options).trySetPermits(PERMITS)
  }

  async use(task: Task): Promise<void> {
    const { world, process, dice } = task
    if (dice.chance(0.2)) return await this.#useShortLived(task)
    const semaphore = process.client.getSemaphore('permits', this.options)
    const options = { waitTimeMs: 3_000, ...task.waitOptions(), ...priorityIn(this.options, dice) }
    await semaphore.withPermit(options, async () => {
      world.grants++
      const leave = world.beliefs.enters('permits', task.name)
      task.note('has a permit')
      await task.pause(dice.chance(0.9) ? 400 : 6_000)
      leave()
    })
  }

  /** One that may be deleted at any time. */
  async #useShortLived(task: Task): Promise<void> {
    const { world, process, dice } = task
    const semaphore = process.client.getSemaphore(SHORT_LIVED, this.options)
    const beganAt = world.clock.now()
    if ((await task.tolerate(semaphore.trySetPermits(PERMITS))) === true) world.copies.created(SHORT_LIVED, beganAt)
    if ((await task.tolerate(semaphore.tryAcquire({ waitTimeMs: dice.between(0, 500) }))) === true) {
      await task.pause(300)
      await task.tolerate(semaphore.release())
    }
    if (dice.chance(0.3)) await task.tolerate(semaphore.delete())
  }

  async recover({ processes }: World): Promise<void> {
    const open = processes.filter(({ isClosed }) => !isClosed)
    for (const { client } of open) {
      const semaphore = client.getSemaphore('permits', this.options)
      assert.equal(await semaphore.availablePermits(), PERMITS, 'permits are conserved')
      await semaphore.acquire({ permits: PERMITS, waitTimeMs: 2_000 })
      await semaphore.release(PERMITS)
    }
  }

  checkEnd({ redis }: World): void {
    assert.equal(redis.execute(['GET', 'permits']), String(PERMITS), 'permits are conserved, whatever arrives late')
  }
}

/** Latches on which every task counts down once, and for which it waits then. */
class LatchWorkload implements Workload {
  readonly lasting = /^(l\d|short)$/
  readonly counters = [...LATCHES, SHORT_LIVED]
  /** By latch: counts that were begun, those that are certain, and when the last one was. */
  readonly #counts = new Map(LATCHES.map((name) => [name, { begun: 0, certain: 0, lastAt: 0 }]))
  readonly #places = new Map<Task, number>()
  #tasks = 0

  async prepare({ processes, plan }: World): Promise<void> {
    this.#tasks = plan.processes * plan.tasks
    for (const name of LATCHES) await processes[0]?.client.getCountDownLatch(name).trySetCount(this.#tasks)
  }

  async use(task: Task): Promise<void> {
    const at = this.#places.get(task) ?? 0
    this.#places.set(task, at + 1)
    const name = LATCHES[at]
    if (name === undefined) return await this.#useShortLived(task)
    const latch = task.process.client.getCountDownLatch(name)
    const count = this.#counts.get(name) as { begun: number; certain: number; lastAt: number }
    count.begun++
    if ((await task.tolerate(latch.countDown().then(() => true))) === true) {
      count.certain++
      count.lastAt = task.world.clock.now()
      task.note(`counted ${name} down`)
    }
    const beganAt = task.world.clock.now()
    const isOpen = await task.tolerate(latch.await({ waitTimeMs: 2 * OPENS_WITHIN_MS }))
    task.world.grants++
    if (isOpen) assert(count.begun >= this.#tasks, `${name} opened after ${count.begun} of ${this.#tasks} counts`)
    const calmFor = task.world.clock.now() - Math.max(count.lastAt, beganAt)
    const isCertain = count.certain === this.#tasks && calmFor > OPENS_WITHIN_MS
    assert(isOpen !== false || !isCertain, `${name} stays closed after all counts`)
  }

  /** One that may be deleted at any time. */
  async #useShortLived(task: Task): Promise<void> {
    const { world, process, dice } = task
    const latch = process.client.getCountDownLatch(SHORT_LIVED)
    const beganAt = world.clock.now()
    if ((await task.tolerate(latch.trySetCount(dice.between(1, 4)))) === true)
      world.copies.created(SHORT_LIVED, beganAt)
    await task.tolerate(latch.countDown())
    await task.tolerate(latch.await({ waitTimeMs: dice.between(0, 1_000) }))
    if (dice.chance(0.3)) await task.tolerate(latch.delete())
  }

  async recover({ processes }: World): Promise<void> {
    const [first] = processes.filter(({ isClosed }) => !isClosed)
    for (const [name, { begun, certain }] of this.#counts) {
      const latch = first?.client.getCountDownLatch(name)
      const left = await latch?.getCount()
      const [least, most] = [Math.max(0, this.#tasks - begun), this.#tasks - certain]
      assert(
        left === undefined || (left >= least && left <= most),
        `${left} of ${this.#tasks} left, not ${least}…${most}`,
      )
      await latch?.delete()
    }
  }
}

function priorityIn({ order }: OrderOptions, dice: Dice): { priority?: number } {
  return order && dice.chance(0.3) ? { priority: dice.between(-2, 2) } : {}
}

export const SYNCHRONIZER_WORKLOADS: Workloads = {
  permits: () => new PermitWorkload(),
  'permits in order': () => new PermitWorkload({ order: 'fifo' }),
  semaphore: () => new SemaphoreWorkload(),
  'semaphore in order': () => new SemaphoreWorkload({ order: 'fifo' }),
  latch: () => new LatchWorkload(),
}
