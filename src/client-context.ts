// Wires up what a client provides to its locks: one place that says who calls whom back.
import type { RedisPort } from './adapters/port.js'
import type { CheckedClientOptions } from './client-options.js'
import { BackgroundRetries } from './delivery/background-retries.js'
import { Durability } from './delivery/durability.js'
import { IdempotencyKeys } from './delivery/idempotency.js'
import { Replication } from './delivery/replica-acks.js'
import { Scripts } from './delivery/scripts.js'
import type { Presence } from './fleet/presence.js'
import type { ClientEvents } from './locks/context.js'
import { SPIN_PACE } from './locks/kinds/spin.js'
import { TurnQueues } from './locks/kinds/turn-queues.js'
import type { Lease, LeaseContext } from './locks/lease.js'
import { LeaseRegistry } from './locks/lease-registry.js'
import { commandFailed, renewalEnded } from './locks/reporting/observation.js'
import { RecentLosses } from './locks/reporting/recent-losses.js'
import type { Shutdown } from './shutdown.js'
import type { Clock } from './util/clock.js'
import { DenseSet } from './util/collections.js'
import type { Random } from './util/random.js'
import { Inbox } from './waiting/inbox.js'
import { WaitQueues } from './waiting/wait-queue.js'
import { Wakeups } from './waiting/wakeups.js'
import { crossSlotRefused, renewalRefused, severalServers } from './warnings.js'
import { Watchdog } from './watchdog/watchdog.js'
import { Owners } from './wire/holder.js'

/** @internal What unit tests and the simulator replace. */
export interface Seams {
  clock: Clock
  random: Random
}

/** The client that a context belongs to. */
export interface ContextOwner {
  readonly id: string
  readonly shutdown: Shutdown
  /** Undefined while the client is constructed, and with `inspection: false`. */
  presence(): Presence | undefined
  subscriptionRefused(channel: string, error: unknown): void
  hasListeners(event: keyof ClientEvents): boolean
  emit<E extends keyof ClientEvents>(event: E, details: ClientEvents[E]): boolean
}

export function newContext(
  port: RedisPort,
  options: CheckedClientOptions,
  { clock, random }: Seams,
  client: ContextOwner,
): LeaseContext {
  const { lockWatchdogTimeoutMs, lockWatchdogBatchSize, commandTimeoutMs } = options
  const warn = (warning: Error): void => void client.emit('warning', [warning])
  const { shutdown } = client
  const onReleased = shutdown.released.bind(shutdown)
  const scripts = new Scripts(port, clock, commandTimeoutMs, {
    onCrossSlot: (error) => warn(crossSlotRefused(error)),
    onSeveralServers: () => warn(severalServers()),
    onError: (error) => commandFailed(client.id, error),
  })
  const replication = new Replication(
    clock,
    scripts,
    (options.checkLockSyncedSlaves ?? port.isReplicated) ? options.slavesSyncTimeoutMs : undefined,
    warn,
    options.checkLockFsynced ? new Durability(scripts, commandTimeoutMs) : undefined,
  )
  const wakeups = new Wakeups(port, clock, random, {
    onFirst: () => client.presence()?.start(),
    onRefused: (channel, error) => client.subscriptionRefused(channel, error),
  })
  const inbox = new Inbox(client.id, wakeups, (text) => client.presence()?.receive(text))
  const terms = { leaseTimeMs: lockWatchdogTimeoutMs, batchSize: lockWatchdogBatchSize }
  const watchdog = new Watchdog(clock, random, scripts, terms, {
    onRefused: (error) => warn(renewalRefused(error)),
    onRenewed: (key) => replication.checkMaster(key),
    onRenewal: (lease, result) => renewalEnded(lease as Lease, result),
    onTick: () => client.presence()?.tick() ?? Number.POSITIVE_INFINITY,
  })
  return {
    ...options,
    watchdogTimeoutMs: lockWatchdogTimeoutMs,
    defaultTerms: {
      leaseTimeMs: undefined,
      maxHoldMs: options.maxHoldMs,
      warnAfterMs: options.warnAfterMs,
      label: undefined,
      atLeastMs: undefined,
    },
    keepsStacks: options.inspection !== false && options.inspection.stacks,
    clientId: client.id,
    owners: new Owners(),
    clock,
    random,
    scripts,
    wakeups,
    inbox,
    waitQueues: new WaitQueues(clock, wakeups, inbox),
    pace: port.hasMessages === false ? SPIN_PACE : undefined,
    watchdog,
    backgroundRetries: new BackgroundRetries(clock, random, scripts),
    idempotencyKeys: new IdempotencyKeys(clock, client.id, scripts, commandTimeoutMs),
    replication,
    leases: new LeaseRegistry<Lease>(onReleased),
    attempts: new DenseSet('attempted'),
    turnQueues: new TurnQueues(!scripts.isCluster, warn),
    sections: new DenseSet('begun', onReleased),
    recentLosses: new RecentLosses(),
    ownInfo: () => client.presence()?.info,
    recordOf: async (id, timeoutMs) => await client.presence()?.recordOf(id, timeoutMs),
    assertOpen: shutdown.assertOpen.bind(shutdown),
    assertUsable: shutdown.assertUsable.bind(shutdown),
    hasListeners: client.hasListeners,
    emit: (event, ...details) => client.emit(event, details),
  }
}
