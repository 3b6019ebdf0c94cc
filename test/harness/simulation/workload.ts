import type { WorkloadName } from './plan.js'
import type { Task } from './task.js'
import type { World } from './world.js'

/** What the tasks of a life do. */
export interface Workload {
  /** How many Redis servers it needs; default 1. */
  readonly servers?: number
  /** Of what, besides locks, several may be held at once. */
  readonly limits?: ReadonlyMap<string, number>
  /** Names of semaphores without leases and of latches, which late copies must not change. */
  readonly counters?: readonly string[]
  /** What a key is for; default: a resource of that name. */
  resourcesOf?(key: string): readonly string[]
  /** How long it may take until what is uncertain is settled, ms. */
  readonly settlesInMs?: number
  /** Keys that exist for ever. */
  readonly lasting?: RegExp
  /** Before anything goes wrong. */
  prepare?(world: World): Promise<unknown>
  /** One use. */
  use(task: Task): Promise<unknown>
  /** Whether Redis says so, too, as far as it can be seen. */
  isHeldInRedis?(world: World, resource: string, holder: string): boolean
  /** Once all is well: what has to be possible again, at once. */
  recover(world: World): Promise<unknown>
  /** When nothing can change any more: what has to be so. */
  checkEnd?(world: World): void
}

export type Workloads = Readonly<Partial<Record<WorkloadName, () => Workload>>>
