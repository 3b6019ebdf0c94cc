import assert from 'node:assert/strict'
import { fromBytes } from '../../../src/testing/bytes.js'
import { ELECTION_WORKLOADS } from './elections.js'
import { heldIn } from './holders.js'
import { COMMAND_TIMEOUT_MS } from './link.js'
import { LOCK_WORKLOADS } from './locks.js'
import { type Plan, simpler, type WorkloadName } from './plan.js'
import { SYNCHRONIZER_WORKLOADS } from './synchronizers.js'
import { Task } from './task.js'
import type { Workload } from './workload.js'
import { LONGEST_LEASE_MS, World } from './world.js'

/** How often to try a simpler life that fails, too. */
const MOST_TRIES = 200
/** Keys that say which operations were carried out already: they last longer than a life. */
const IDEMPOTENCY = /^holdfast_idempotency:/

export interface Life {
  readonly workload: WorkloadName
  readonly grants: number
  readonly handOffs: number
  readonly losses: number
  readonly troubles: number
  readonly failovers: number
  /** Copies of commands that arrived when nobody expected them. */
  readonly lateCopies: number
  /** Holds that were lost with an extension of their lease that did not survive a failover. */
  readonly excused: number
  /** The same for the same seed. */
  readonly digest: string
}

/** @throws {Error} a promise was broken @param timeline  gets a line for everything that happens */
export async function live(plan: Plan, timeline?: string[]): Promise<Life> {
  const workload = workloadOf(plan.workload)
  const world = new World(plan, workload, timeline)
  const { beliefs, clock, copies, processes } = world
  const check = (): void => {
    const isHeld = (resource: string, holder: string): boolean =>
      workload.isHeldInRedis?.(world, resource, holder) ?? true
    beliefs.check(isHeld, (resource) => holdersOf(world, resource))
  }

  const starting = processes.map((process) => process.startThread())
  await world.run([...starting, workload.prepare?.(world) ?? Promise.resolve()], 5_000, check)
  world.beginStorm()
  const tasks = processes.flatMap((process) =>
    Array.from({ length: plan.tasks }, (_, index) => useAgainAndAgain(new Task(world, process, index), workload)),
  )
  await world.run([...tasks, world.makeTrouble(), world.closeEarly()], plan.stormMs + 60_000, check)

  // A hold that no client knows of ends with its lease; a command without a reply, with the command time-out.
  await clock.advance(Math.max(workload.settlesInMs ?? 0, LONGEST_LEASE_MS + 2 * COMMAND_TIMEOUT_MS))
  world.check()
  assert.deepEqual(keysOf(world).filter(isLock), [], 'nothing is held for ever')
  world.note('everything has to be free again')
  await world.run([workload.recover(world)], 30_000, check)
  assert.deepEqual(lasting(world, workload), [], 'no key lasts for ever')
  const open = processes.filter(({ isClosed }) => !isClosed)
  await world.run(
    open.map((process) => process.close()),
    10_000,
    check,
  )
  await clock.advance(5) // for messages on their way
  world.check()
  assert.equal(clock.pending - copies.pending, 0, 'no timer is left after close()')
  // Nobody is left who could undo what they do.
  while (copies.pending > 0) {
    await clock.step()
    world.check()
  }
  await clock.advance(5) // for what is on its way to replicas
  world.checkReplicas()
  workload.checkEnd?.(world)
  assert.deepEqual(lasting(world, workload), [], 'no key lasts for ever that a late copy created')
  for (const { links } of processes)
    for (const { channels } of links.flatMap(({ ports }) => ports))
      assert.deepEqual(channels, [], 'no subscription is left')
  const { grants, handOffs, losses, troubles, failovers, digest } = world
  const { arrived: lateCopies } = copies
  return {
    workload: plan.workload,
    grants,
    handOffs,
    losses,
    troubles,
    failovers,
    lateCopies,
    excused: beliefs.excused.size,
    digest,
  }
}

/** What is left of a plan that fails if everything that its failure does not need is removed, and what happens then. */
export async function shrink(plan: Plan): Promise<{ plan: Plan; error: Error; timeline: readonly string[] }> {
  let smallest = plan
  let tries = 0
  const isFailing = async (one: Plan): Promise<boolean> => {
    tries++
    return await live(one).then(
      () => false,
      () => true,
    )
  }
  for (let found: Plan | undefined = plan; found && tries < MOST_TRIES; ) {
    smallest = found
    found = undefined
    for (const candidate of simpler(smallest)) {
      if (tries < MOST_TRIES && (await isFailing(candidate))) {
        found = candidate
        break
      }
    }
  }
  const timeline: string[] = []
  const error = await live(smallest, timeline).then(
    () => new Error('it did not fail again'),
    (reason: unknown) => (reason instanceof Error ? reason : new Error(String(reason))),
  )
  return { plan: smallest, error, timeline }
}

function workloadOf(name: WorkloadName): Workload {
  const create = LOCK_WORKLOADS[name] ?? SYNCHRONIZER_WORKLOADS[name] ?? ELECTION_WORKLOADS[name]
  if (!create) throw new Error(`no workload ${name}`)
  return create()
}

async function useAgainAndAgain(task: Task, workload: Workload): Promise<void> {
  while (task.world.isStormy) {
    await task.pause(500)
    await task.tolerate(workload.use(task) as Promise<unknown>)
  }
}

function holdersOf({ servers }: World, resource: string): string[] {
  const held = servers.flatMap((redis) => [...heldIn(redis).values()])
  return held.filter((one) => one.resource === resource).map(({ holder }) => holder)
}

interface FoundKey {
  readonly name: string
  readonly expiresInMs: number
}

/** What is on all servers. */
function keysOf({ servers }: World): readonly FoundKey[] {
  return servers.flatMap((redis) => {
    redis.keyspace.tick()
    return redis.keyspace.names().map((bytes) => {
      const name = fromBytes(bytes)
      return { name, expiresInMs: redis.pttl(name) }
    })
  })
}

/** Keys without an expiry. */
function lasting(world: World, { lasting: expected }: Workload): readonly FoundKey[] {
  const isExpected = (name: string): boolean => IDEMPOTENCY.test(name) || expected?.test(name) === true
  return keysOf(world).filter(({ name, expiresInMs }) => expiresInMs === -1 && !isExpected(name))
}

/** By how much a group outlives the leases of its values, ms. */
const GROUP_SLACK_MS = 10_000

/** Whether a key is that of a lock, and not of a queue, a turn queue or a channel; nor of a group whose leases are over. */
function isLock({ name, expiresInMs }: FoundKey): boolean {
  if (name === 'group') return expiresInMs === -1 || expiresInMs > GROUP_SLACK_MS
  return /^(a|b|c|\{a\})$/.test(name)
}
