import assert from 'node:assert/strict'
import type { Election } from '../../../src/locks/election.js'
import type { Task } from './task.js'
import type { Workload, Workloads } from './workload.js'
import { LEASE_MS, type Process, type World } from './world.js'

const NAME = 'a'
/** How long after the storm somebody leads at the latest, ms: a candidate that failed again and again waits for 30 s. */
const LED_WITHIN_MS = 40_000
/** The same for candidates that have not failed. */
const ELECTED_WITHIN_MS = 4_000
const LOOK_MS = 100

/** Processes that campaign, lead and resign. */
class ElectionWorkload implements Workload {
  readonly lasting = /^(redisson_lock_token|holdfast_audit)/
  readonly #elections = new Set<Election>()

  async use(task: Task): Promise<void> {
    const { world, process, dice } = task
    if (process.isClosed) return await task.pause(LEASE_MS)
    if (world.plan.troubles.includes('forced') && dice.chance(0.1)) return await this.#force(task)
    const election = this.#campaign(task)
    await task.pause(dice.chance(0.7) ? LEASE_MS : 3 * LEASE_MS)
    if (!world.isStormy) await this.#untilLed(world, process, LED_WITHIN_MS)
    task.note('resigns')
    await election.resign()
    this.#elections.delete(election)
    assert(!election.isLeader, 'whoever resigned does not lead')
  }

  isHeldInRedis(world: World, resource: string, holder: string): boolean {
    return world.redis.isHeldBy(resource, holder)
  }

  async recover(world: World): Promise<void> {
    const open = world.processes.filter(({ isClosed }) => !isClosed)
    const candidates = open.map(({ client }) => client.elect(NAME, { onElected: () => {} }))
    for (const one of candidates) this.#elections.add(one)
    for (const [index] of candidates.entries()) {
      await this.#untilLed(world, open[index] as Process, ELECTED_WITHIN_MS)
      const leaders = candidates.filter(({ isLeader }) => isLeader)
      assert.equal(leaders.length, 1, 'one leads')
      await leaders[0]?.resign()
    }
    this.#elections.clear()
  }

  #campaign(task: Task): Election {
    const { world, process, dice } = task
    const election = process.client.elect(NAME, {
      onElected: async (signal, hold) => {
        world.grants++
        world.beliefs.holds(hold, [NAME])
        task.note(`leads as ${hold.holder}`)
        await task.pause(dice.chance(0.5) ? 500 : 0)
        if (!signal.aborted) task.note('is established')
      },
      onLost: () => task.note('has lost the election'),
    })
    // Nothing of what goes wrong here lasts.
    election.finished.catch((error: unknown) => world.fail(`the election is over for ${task.name}: ${String(error)}`))
    this.#elections.add(election)
    return election
  }

  async #force(task: Task): Promise<void> {
    const { world, process } = task
    const over = world.beliefs.forcing(NAME)
    task.note('forces the election')
    await task.tolerate(process.client.getFencedLock(NAME).forceUnlock())
    over(world.forcedUntil)
  }

  /** @param process  whose client waits */
  async #untilLed(world: World, process: Process, withinMs: number): Promise<void> {
    const isLed = (): boolean => [...this.#elections].some(({ isLeader }) => isLeader)
    for (let left = withinMs; !isLed() && !process.isClosed; left -= LOOK_MS) {
      assert(left > 0, `nobody was elected within ${withinMs} ms`)
      await world.pause(world.clock, LOOK_MS)
    }
  }
}

export const ELECTION_WORKLOADS: Workloads = { election: () => new ElectionWorkload() }
