import { type RedisServer, startRedis } from '../../support/servers/redis-server.js'
import { sleep } from '../../support/wait-until.js'
import { monotonicMs } from '../beliefs.js'
import { type Random, randomOf } from '../random.js'
import { sumOf } from '../tally.js'
import { MOST_INSIDE } from './messages.js'
import { JavaWorker } from './redisson.js'
import { type Fault, type Fixture, type Injected, mastersOf, openDirectly, type Topology } from './topology.js'
import { declared, type Finding, judge, type Section } from './verdict.js'
import { Workers } from './workers.js'

/** Servers rest between two of their faults, ms: from half of it to one and a half. */
const REST_MS = 2_000
/** More than processes need to start, ms. */
const READY_MS = 20_000
/** How often servers may fail to settle after a fault, as the machine is busy. */
const MOST_HEALS = 4

export interface Plan {
  readonly seconds: number
  readonly seed: number
  readonly workers: number
  readonly tasks: number
  readonly faults: readonly Fault[]
  readonly semaphores: readonly string[]
  /** The mean time between two faults of connections and workers, ms. */
  readonly everyMs: number
  /** The lease of what is renewed, ms. */
  readonly leaseMs: number
  /** How long after the last fault each worker may wait for each kind, ms. */
  readonly proveMs: number
  /** How long keys may outlive everything, ms: by then leases of killed processes and late copies have ended. */
  readonly quietMs: number
  /** The first worker breaks its locks, the others use the same ones properly. */
  readonly isControl: boolean
  /** A JVM with Redisson takes the same locks. */
  readonly withJava: boolean
  note(text: string): void
}

export interface Outcome {
  readonly acquisitions: number
  readonly sections: readonly Section[]
  readonly faults: readonly Injected[]
  readonly findings: readonly Finding[]
  readonly permits: Readonly<Record<string, number>>
  /** Writes with an old token that the record refused. */
  readonly refused: number
  readonly errors: Readonly<Record<string, number>>
  /** From the last fault until every worker was served with every kind, ms. */
  readonly recoveryMs: number
}

/** Storm, heal, demand progress, and collect what came of it. */
export async function runChaos(plan: Plan, topology: Topology): Promise<Outcome> {
  await using record = await startRedis()
  await prepare(plan, topology)
  await using java = plan.withJava ? await JavaWorker.start(topology, randomOf(plan.seed + 3)) : undefined
  await using workers = await startWorkers(plan, topology, record)
  await workers.ready(READY_MS)
  java?.begin()
  const faults: Injected[] = []
  const watch = setInterval(() => progress(plan, workers, faults), 5_000)
  try {
    await rage(plan, { workers, topology, random: randomOf(plan.seed) }, faults)
    plan.note('heal: all faults end')
    await healed(topology, plan)
    const healedAt = monotonicMs()
    const [unserved = []] = await Promise.all([java?.prove(), workers.prove(plan.proveMs)])
    const recoveryMs = monotonicMs() - healedAt
    const stuck = [...workers.stuck, ...unserved]
    plan.note(
      `every kind has to work again: ${stuck.length === 0 ? `after ${Math.round(recoveryMs)} ms` : 'not in time'}`,
    )
    await workers.end(2 * plan.proveMs + 10_000)
    workers.sections.push(...(java?.sections ?? []))
    plan.note('waiting for the last leases to end')
    const outcome = await collect(plan, topology, workers, faults)
    return {
      ...outcome,
      acquisitions: outcome.acquisitions + (java?.sections.length ?? 0),
      findings: [...outcome.findings, ...unserved.map((what): Finding => ({ verdict: 'stuck', what }))],
      errors: { ...outcome.errors, ...java?.errors },
      recoveryMs,
    }
  } finally {
    clearInterval(watch)
  }
}

async function startWorkers(plan: Plan, topology: Topology, record: RedisServer): Promise<Workers> {
  const { leaseMs, isControl } = plan
  const ports = topology.servers.map(({ port }) => port)
  const workers = new Workers({ ports, leaseMs, reach: (network) => topology.reach(network) })
  for (let n = 0; n < plan.workers; n++) {
    await workers.start({
      redUrls: topology.redServers.map(({ url }) => url),
      recordUrl: record.url,
      seed: plan.seed + n,
      tasks: plan.tasks,
      isMortal: !isControl && n % 2 === 1,
      isReplicated: topology.isReplicated,
      ...(isControl ? { control: n === 0 ? 'broken' : 'honest' } : {}),
    })
  }
  return workers
}

async function prepare({ semaphores, isControl }: Plan, topology: Topology): Promise<void> {
  const client = await openDirectly(topology)
  for (const name of semaphores) {
    // The one with owners and leases has "permits" in its name.
    if (!isControl && name.includes('permits')) {
      await client.getPermitExpirableSemaphore(name).trySetPermits(MOST_INSIDE)
    } else await client.getSemaphore(name).trySetPermits(MOST_INSIDE)
  }
  await client.close()
}

function progress({ note }: Plan, { acquisitions, findings }: Workers, faults: readonly Injected[]): void {
  const last = faults.findLast(({ to }) => to === Number.POSITIVE_INFINITY)
  const current = last ? `, now ${last.name}` : ''
  note(`${acquisitions} acquisitions, ${faults.length} faults, ${findings.length} findings${current}`)
}

/** Faults at random times: those of servers one after the other, all others also while others last. */
async function rage(plan: Plan, fixture: Fixture, injected: Injected[]): Promise<void> {
  const endsAt = monotonicMs() + plan.seconds * 1_000
  const isOver = (): boolean => monotonicMs() >= endsAt
  const ofServers = plan.faults.filter(({ isOfServers }) => isOfServers)
  const others = plan.faults.filter(({ isOfServers }) => !isOfServers)
  const { random, topology, workers } = fixture
  // A client that has never seen the replicas of a master trusts it without: docs/guarantees.md excepts that.
  const isFailing = (): boolean =>
    topology.isReplicated && injected.some(({ isOfServers, to }) => isOfServers && to === Number.POSITIVE_INFINITY)
  const overlapping = async (): Promise<void> => {
    const running: Promise<void>[] = []
    while (others.length > 0 && !isOver()) {
      await sleep(random(2 * plan.everyMs))
      const fault = choice(others, random)
      if (!(fault.isOfNewcomers && isFailing())) running.push(inject(fault, fixture, injected, plan))
    }
    await Promise.all(running)
  }
  // Of its own, so that the order of the faults of servers does not depend on how long they take.
  const ownRandom = randomOf(plan.seed + 1)
  const serial = async (): Promise<void> => {
    while (ofServers.length > 0 && !isOver()) {
      if (topology.isReplicated) await workers.ready(READY_MS)
      await inject(choice(ofServers, ownRandom), fixture, injected, plan)
      await healed(topology, plan)
      await sleep(REST_MS / 2 + ownRandom(REST_MS))
    }
  }
  await Promise.all([overlapping(), serial()])
  const restMs = endsAt - monotonicMs()
  if (restMs > 0) await sleep(restMs)
}

function choice(faults: readonly Fault[], random: Random): Fault {
  const bag = faults.flatMap((fault) => Array.from({ length: fault.weight }, () => fault))
  return bag[random(bag.length)] as Fault
}

async function inject(fault: Fault, fixture: Fixture, injected: Injected[], { note }: Plan): Promise<void> {
  const { name, forgets, isOfServers = false } = fault
  const from = monotonicMs()
  const one: Injected = { name, isOfServers, from, to: Number.POSITIVE_INFINITY, ...(forgets ? { forgets } : {}) }
  injected.push(one)
  try {
    await fault.inject(fixture)
  } catch (error) {
    note(`${name} did not go as planned: ${String(error).slice(0, 200)}`)
  }
  one.to = monotonicMs()
}

async function healed(topology: Topology, { note }: Plan): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await topology.heal()
    } catch (error) {
      note(`the servers do not settle: ${String(error).slice(0, 200)}`)
      if (tries === MOST_HEALS) throw error
    }
  }
}

async function collect(
  plan: Plan,
  topology: Topology,
  workers: Workers,
  faults: readonly Injected[],
): Promise<Omit<Outcome, 'recoveryMs'>> {
  const { sections, summaries, refused, acquisitions } = workers
  const { semaphores, leaseMs } = plan
  const evidence = { sections, semaphores, faults, leaseMs }
  const latches = summaries.flatMap((summary) => summary.latches)
  const keys = await leftOver(plan, topology, latches)
  const permits = await permitsIn(plan, topology)
  const findings: Finding[] = [
    ...judge(evidence),
    ...workers.findings.map(({ at: _, verdict, ...rest }): Finding => {
      if (verdict === 'dishonest') return { verdict, ...rest }
      return declared({ verdict: 'failures', ...rest }, evidence, 'counts')
    }),
    ...workers.warnings.map((what): Finding => ({ verdict: 'failures', what })),
    ...Object.entries(permits)
      .filter(([, count]) => count !== MOST_INSIDE)
      .map(([lock, count]): Finding => {
        const finding: Finding = { verdict: 'permits', lock, what: `${lock}: ${count} of ${MOST_INSIDE} permits` }
        // What a server forgets may be a release, which costs a permit; nothing excuses one too many, but a lost count.
        return declared(finding, evidence, count < MOST_INSIDE ? 'counts' : 'locks')
      }),
    ...keys.map((key): Finding => {
      const finding: Finding = { verdict: 'keysLeft', lock: key, what: `${key} is left` }
      return key.startsWith('chaos:latch') ? declared(finding, evidence, 'counts') : finding
    }),
    ...workers.stuck.map((what): Finding => ({ verdict: 'stuck', what })),
  ]
  const errors = sumOf(summaries.map((summary) => summary.errors))
  return { acquisitions, sections, faults, findings, permits, refused, errors }
}

async function permitsIn({ semaphores, isControl }: Plan, topology: Topology): Promise<Record<string, number>> {
  const client = await openDirectly(topology)
  const counts: Record<string, number> = {}
  for (const name of semaphores) {
    const isExpirable = !isControl && name.includes('permits')
    const semaphore = isExpirable ? client.getPermitExpirableSemaphore(name) : client.getSemaphore(name)
    counts[name] = await semaphore.availablePermits()
  }
  await client.close()
  return counts
}

/** Keys that remain when all leases have ended, except those meant to stay. */
async function leftOver(plan: Plan, topology: Topology, latches: readonly string[]): Promise<string[]> {
  const servers = await mastersOf(topology)
  const endsAt = monotonicMs() + plan.quietMs
  for (;;) {
    // A permit whose lease has ended is only given back, and its key deleted, by the next caller.
    await permitsIn(plan, topology)
    const left: string[] = []
    for (const { admin } of servers) {
      for (const key of await admin.keys('*'))
        if (!(await mayStay(key, plan, latches, () => admin.pttl(key)))) left.push(key)
    }
    if (left.length === 0 || monotonicMs() > endsAt) return left
    await sleep(500)
  }
}

async function mayStay(
  key: string,
  { semaphores }: Plan,
  latches: readonly string[],
  ttl: () => Promise<number>,
): Promise<boolean> {
  if (semaphores.includes(key) || latches.includes(key)) return true
  if (key.startsWith('redisson_lock_token:') || key.endsWith(':observed')) return true
  // Idempotency keys, generations of semaphores, and the records of clients that were killed expire.
  return /^holdfast_(idempotency|generation|client):/.test(key) && (await ttl()) > 0
}
