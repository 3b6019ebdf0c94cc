// One acquire of permits without leases: attempt, outcome, undo.
import { type Operation, TooLate } from '../delivery/idempotency.js'
import { untilReady } from '../delivery/ready.js'
import { mayBeGranted } from '../delivery/replica-acks.js'
import { toInteger } from '../delivery/replies.js'
import type { Context, Section } from '../locks/context.js'
import type { AcquireRequest } from '../locks/kinds/lock-kind.js'
import { semaphoreAcquire, semaphoreAcquireInOrder, semaphoreCancel } from '../lua/generated.js'
import type { ScriptCall } from '../lua/script.js'
import type { OwnTicket } from '../waiting/turn-queue.js'
import type { Attempt, Outcome } from '../waiting/wait-loop.js'
import type { Refusal } from '../waiting/wait-queue.js'
import { generationKey, queueKeys, semaphoreChannel } from '../wire/keys.js'
import type { Named } from '../wire/names.js'
import { SETTLE_MS } from './count-once.js'
import { callFirst, type PermitOrder, refusalIn, waiterArguments } from './permits-in-order.js'

/** A section that runs with permits of one generation of the semaphore. */
export interface PermitSection extends Section {
  generation: number
}

/** The reply of an acquire that was refused; otherwise it is the generation, or says more about the refusal. */
const REFUSED = 0
const NO_TIME_KNOWN: Refusal = { heldForMs: -1 }

/** Its place in the queue of an ordered semaphore. */
interface Queued {
  readonly waiter: string
  readonly order: PermitOrder
  readonly request: Pick<AcquireRequest, 'priority' | 'place' | 'waitTimeMs'>
  /** Whether Redis may have queued it. */
  isSent: boolean
}

/**
 * One caller takes permits that have no holder: its attempts, and what is undone if it ends without them. What is granted is
 * the operation, whose reply Redis keeps until it is closed.
 */
export class SemaphoreAcquisition implements Attempt<Operation> {
  readonly #context: Context
  readonly #semaphore: Named
  readonly #permits: number
  readonly #section: PermitSection | undefined
  /** Repeated until Redis replies. The next attempt opens another one: a wait may be long, an operation may not. */
  #operation: Operation | undefined
  #queued: Queued | undefined

  /** @param section  begins with the grant */
  constructor(context: Context, semaphore: Named, permits: number, section: PermitSection | undefined) {
    this.#context = context
    this.#semaphore = semaphore
    this.#permits = permits
    this.#section = section
  }

  /** Waits in the queue of an ordered semaphore. @returns its ticket there */
  queueIn(order: PermitOrder, request: Queued['request']): OwnTicket {
    const { clientId, inbox, random } = this.#context
    const number = `:${random.uuid()}:${this.#permits}`
    this.#queued = { order, request, waiter: clientId + number, isSent: false }
    return { number, since: inbox.epoch }
  }

  untilReady(): Promise<void> | undefined {
    return untilReady(this.#context, this.#semaphore)
  }

  async run(): Promise<Outcome<Operation>> {
    const { idempotencyKeys, replication, sections } = this.#context
    const { key: semaphore, name } = this.#semaphore
    this.#operation ??= idempotencyKeys.open(semaphore)
    const operation = this.#operation
    let isGranted = false
    try {
      const route = replication.routeTo(semaphore)
      const reply = await idempotencyKeys.send(
        operation,
        (opened) => this.#call(opened),
        undefined,
        (raw) => refusalIn(raw, this.#semaphore) ?? (toInteger(raw) as number),
      )
      if (typeof reply === 'object' || reply === REFUSED) return this.#refused(reply || NO_TIME_KNOWN)
      isGranted = true
      if (this.#queued) this.#queued.isSent = false // it has left the queue
      await replication.confirm(this.#semaphore, route)
      this.#context.assertOpen(name) // nobody could release them later
      if (this.#section) {
        this.#section.generation = reply
        sections.add(this.#section)
      }
      this.#operation = undefined
      return { is: 'granted', value: operation, leaseMs: 0 }
    } catch (error) {
      if (error instanceof TooLate) return this.#refused({ heldForMs: 0 })
      if (!isGranted) throw error
      operation.isInDoubt ||= mayBeGranted(error)
      return { is: 'unknown', error }
    }
  }

  undo(left: readonly Outcome<Operation>[]): void {
    for (const outcome of left) {
      if (outcome.is !== 'granted') continue
      if (this.#section) this.#context.sections.delete(this.#section)
      this.#cancel(outcome.value)
    }
    if (this.#operation && left.some(({ is }) => is === 'unknown')) this.#cancel(this.#operation)
    else this.#cancelIfInDoubt()
    const isLeft = left.some(({ is }) => is !== 'refused')
    if (this.#queued && (this.#queued.isSent || isLeft))
      callFirst(this.#context, this.#semaphore.key, this.#queued.waiter)
  }

  #call({ key, number, openedAt }: Operation): ScriptCall {
    const { key: semaphore } = this.#semaphore
    const generation = generationKey(semaphore)
    if (!this.#queued) return semaphoreAcquire(semaphore, key, generation, this.#permits, number, openedAt)
    this.#queued.isSent = this.#queued.request.waitTimeMs !== 0
    const { waiter, order, request } = this.#queued
    const keys = [semaphore, key, ...queueKeys(semaphore), generation] as const
    return semaphoreAcquireInOrder(...keys, ...waiterArguments(waiter, order, request), number, openedAt)
  }

  /** A copy of the operation may still arrive, and take permits for nobody. */
  #refused(refusal: Refusal): Outcome<Operation> {
    this.#cancelIfInDoubt()
    this.#operation = undefined
    if (this.#queued && refusal.rank !== undefined) this.#queued.request.place = refusal.rank
    return { is: 'refused', ...refusal }
  }

  #cancelIfInDoubt(): void {
    if (this.#operation && this.#context.idempotencyKeys.mayHaveRun(this.#operation)) this.#cancel(this.#operation)
  }

  /** In the background: Redis returns what it granted, and refuses copies that arrive later. */
  #cancel(operation: Operation): void {
    const { idempotencyKeys, backgroundRetries, clock } = this.#context
    const { key, number } = operation
    const { key: semaphore } = this.#semaphore
    const channel = semaphoreChannel(semaphore)
    const call = semaphoreCancel(semaphore, key, generationKey(semaphore), this.#permits, number, channel)
    const cancel = (timeoutMs?: number): Promise<unknown> => idempotencyKeys.run(call, timeoutMs)
    void backgroundRetries
      .retryInBackground(cancel, clock.now() + SETTLE_MS)
      .then(() => idempotencyKeys.close(operation))
  }
}
