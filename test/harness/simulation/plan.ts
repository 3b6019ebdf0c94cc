import { Dice } from '../../support/dice.js'

/** What the clients of a life use. */
export const WORKLOADS = [
  'lock',
  'lock in order',
  'non-reentrant lock',
  'fair lock',
  'non-reentrant fair lock',
  'fenced lock',
  'spin lock',
  'string lock',
  'read-write lock',
  'read-write lock in order',
  'multi-lock of values',
  'multi-lock',
  'red lock',
  'permits',
  'permits in order',
  'semaphore',
  'semaphore in order',
  'latch',
  'election',
] as const
export type WorkloadName = (typeof WORKLOADS)[number]

/** What goes wrong with one command or message. */
export const FAULTS = [
  'delay',
  'request lost',
  'reply lost',
  'given up before it was sent',
  'given up after it was sent',
  'error reply',
  'sent twice',
  'late copy',
  'message lost',
] as const
export type FaultName = (typeof FAULTS)[number]

/** What goes wrong with a connection, a process or Redis. */
export const TROUBLES = [
  'reconnect',
  'scripts forgotten',
  'everything blocked',
  'process paused',
  'deaf',
  'cut off',
  'replicas lag',
  'failover',
  'observers silent',
  'another client',
  'clocks drift',
  'watchdog thread',
  'event loop blocked',
  'wall clock set',
  'machine suspended',
  'closed early',
  'forced',
  'interrupted',
] as const
export type TroubleName = (typeof TROUBLES)[number]

/** In which part of the lives they happen, if not in all. */
const SHARES: { readonly [name in TroubleName]?: number } = {
  'closed early': 0.2,
  'watchdog thread': 0.25,
  forced: 0.3,
  interrupted: 0.4,
}

/** Where there are replicas, one of them takes over when the master fails. */
export const TOPOLOGIES = ['without replicas', 'Sentinel', 'cluster'] as const
export type Topology = (typeof TOPOLOGIES)[number]

/** What happens in a life. All of it follows from the seed; a failing life is repeated with less of it. */
export interface Plan {
  readonly seed: number
  readonly workload: WorkloadName
  readonly topology: Topology
  readonly processes: number
  readonly tasks: number
  /** How long things go wrong, ms. */
  readonly stormMs: number
  readonly faults: readonly FaultName[]
  readonly troubles: readonly TroubleName[]
}

/** What a failover may lose by design, or what needs servers without replicas. */
const UNREPLICATED: readonly WorkloadName[] = ['red lock', 'semaphore', 'semaphore in order', 'latch']

/** @param workload  undefined: any @param topology  undefined: any that the workload is for */
export function planOf(seed: number, workload?: WorkloadName, topology?: Topology): Plan {
  const dice = new Dice(seed)
  const any = dice.pick(WORKLOADS)
  const chosen = workload ?? any
  // Nothing returns a permit without a lease whose release Redis refuses, or whose process is cut off when it closes.
  const isUnleased = chosen.startsWith('semaphore')
  const drawn = dice.chance(0.6) ? 'without replicas' : dice.pick(TOPOLOGIES.slice(1))
  return {
    seed,
    workload: chosen,
    topology: UNREPLICATED.includes(chosen) ? 'without replicas' : (topology ?? drawn),
    processes: 3,
    tasks: dice.between(2, 3),
    stormMs: dice.between(8_000, 15_000),
    faults: FAULTS.filter((name) => !isUnleased || name !== 'error reply'),
    troubles: TROUBLES.filter((name) => {
      const share = SHARES[name] ?? 1
      return share === 1 || (dice.chance(share) && (!isUnleased || name !== 'closed early'))
    }),
  }
}

/** The same life with less in it, the greatest savings first. */
export function simpler(plan: Plan): readonly Plan[] {
  const plans: Plan[] = []
  if (plan.processes > 1) plans.push({ ...plan, processes: plan.processes - 1 })
  if (plan.tasks > 1) plans.push({ ...plan, tasks: plan.tasks - 1 })
  if (plan.topology !== 'without replicas') plans.push({ ...plan, topology: 'without replicas' })
  if (plan.stormMs > 500) plans.push({ ...plan, stormMs: Math.round(plan.stormMs / 2) })
  for (const name of plan.troubles) plans.push({ ...plan, troubles: plan.troubles.filter((one) => one !== name) })
  for (const name of plan.faults) plans.push({ ...plan, faults: plan.faults.filter((one) => one !== name) })
  if (plan.stormMs > 500) plans.push({ ...plan, stormMs: Math.round(plan.stormMs * 0.9) })
  return plans
}
