// Permits that are granted in order: by a queue in Redis, whose first waiters are called when there are enough for them.
import type { Context } from '../locks/context.js'
import { type AcquireReply, type AcquireRequest, refuseFull } from '../locks/kinds/lock-kind.js'
import { parseRefusal } from '../locks/kinds/ordered.js'
import { checkOrder, type OrderOptions } from '../locks/options.js'
import { permitAcquireInOrder, permitReleaseInOrder } from '../lua/generated.js'
import type { ScriptCall } from '../lua/script.js'
import type { Random } from '../util/random.js'
import type { Refusal } from '../waiting/wait-queue.js'
import { INBOX_PREFIX, permitLeases, queueKeys, semaphoreChannel } from '../wire/keys.js'
import type { Named } from '../wire/names.js'
import { PermitKind } from './permit-lease.js'

/** How long a client keeps trying to call the first waiters, ms: these also ask by themselves. */
const CALL_WITHIN_MS = 10_000

/** How a semaphore is ordered. */
export interface PermitOrder {
  readonly clientId: string
  /** A call that finds as many waiting is refused at once; undefined: any number. */
  readonly maxWaiters: number | undefined
}

/**
 * @returns undefined: the semaphore is not ordered
 * @throws {ConfigError} an option cannot work
 */
export function orderOf(
  { clientId }: Context,
  options: OrderOptions | undefined,
  name: string,
): PermitOrder | undefined {
  const order = options && checkOrder(options, name)
  return order && { clientId, ...order }
}

/** What every script is told of a waiter. */
export function waiterArguments(
  waiter: string,
  { maxWaiters = -1 }: PermitOrder,
  { priority = 0, place = '', waitTimeMs }: Pick<AcquireRequest, 'priority' | 'place' | 'waitTimeMs'>,
) {
  return [waiter, INBOX_PREFIX, priority, place, maxWaiters, waitTimeMs === 0 ? 0 : 1] as const
}

/** @throws {QueueFullError} as many wait as the caller allows */
export function refusalIn(reply: unknown, semaphore: Named): Refusal | undefined {
  refuseFull(reply, semaphore.name, 'Semaphore')
  return Array.isArray(reply) ? parseRefusal(reply) : undefined
}

/** The permits of one call, granted in order. */
export class OrderedPermitKind extends PermitKind {
  override readonly isOrdered = true
  override readonly isQueuedInRedis = true
  readonly #order: PermitOrder

  constructor(random: Random, permits: number, order: PermitOrder) {
    super(random, permits)
    this.#order = order
  }

  override waiter(): string {
    return `${this.#order.clientId}:${this.permitIds[0]}:${this.permitIds.length}`
  }

  override acquire(request: AcquireRequest): ScriptCall {
    const { key, leaseTimeMs } = request
    const waiter = waiterArguments(this.waiter(), this.#order, request)
    const channel = semaphoreChannel(key)
    return permitAcquireInOrder(
      key,
      permitLeases(key),
      ...queueKeys(key),
      ...waiter,
      leaseTimeMs,
      channel,
      this.permitIds,
    )
  }

  override parseReply(reply: unknown, semaphore: Named): AcquireReply {
    return refusalIn(reply, semaphore) ?? super.parseReply(reply, semaphore)
  }

  override release(key: string): ScriptCall {
    return releaseInOrder(key, this.permitIds, this.waiter())
  }

  leave(key: string): ScriptCall {
    return this.release(key)
  }
}

/** @param permitIds  none: it only calls the first waiters @param waiter  leaves the queue */
export function releaseInOrder(key: string, permitIds: readonly string[], waiter = ''): ScriptCall {
  const channel = semaphoreChannel(key)
  return permitReleaseInOrder(key, permitLeases(key), ...queueKeys(key), channel, waiter, INBOX_PREFIX, permitIds)
}

/**
 * Calls the first waiters, in the background, after something else than an ordered release gave permits back.
 * @param waiter  leaves the queue
 */
export function callFirst({ backgroundRetries, clock }: Context, key: string, waiter = ''): void {
  void backgroundRetries.retryInBackground(releaseInOrder(key, [], waiter), clock.now() + CALL_WITHIN_MS)
}
