// One acquire of permits without leases: attempt, outcome, undo.
import { type Operation, TooLate } from '../delivery/idempotency.js'
import { untilReady } from '../delivery/ready.js'
import { mayBeGranted } from '../delivery/replica-acks.js'
import type { Context, Section } from '../locks/context.js'
import { semaphoreAcquire, semaphoreCancel } from '../lua/generated.js'
import type { Attempt, Outcome } from '../waiting/wait-loop.js'
import { generationKey, semaphoreChannel } from '../wire/keys.js'
import type { Named } from '../wire/names.js'
import { SETTLE_MS } from './count-once.js'

/** A section that runs with permits of one generation of the semaphore. */
export interface PermitSection extends Section {
  generation: number
}

/** The reply of an acquire that was refused; otherwise it is the generation. */
const REFUSED = 0

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

  /** @param section  begins with the grant */
  constructor(context: Context, semaphore: Named, permits: number, section: PermitSection | undefined) {
    this.#context = context
    this.#semaphore = semaphore
    this.#permits = permits
    this.#section = section
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
      const generation = await idempotencyKeys.send(operation, ({ key, number, openedAt }) =>
        semaphoreAcquire(semaphore, key, generationKey(semaphore), this.#permits, number, openedAt),
      )
      if (generation === REFUSED) return this.#refused(-1)
      isGranted = true
      await replication.confirm(this.#semaphore, route)
      this.#context.assertOpen(name) // nobody could release them later
      if (this.#section) {
        this.#section.generation = generation
        sections.add(this.#section)
      }
      this.#operation = undefined
      return { is: 'granted', value: operation, leaseMs: 0 }
    } catch (error) {
      if (error instanceof TooLate) return this.#refused(0)
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
  }

  /** A copy of the operation may still arrive, and take permits for nobody. */
  #refused(heldForMs: number): Outcome<Operation> {
    this.#cancelIfInDoubt()
    this.#operation = undefined
    return { is: 'refused', heldForMs }
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
