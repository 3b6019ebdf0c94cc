// Permits of one call as a kind of lock: ids, scripts, holds.
import { toArray, toInteger } from '../delivery/replies.js'
import { WaitTimeoutError } from '../errors.js'
import type { KnownHolder, WaitDetails } from '../holder-info.js'
import type { Hold } from '../locks/hold.js'
import type { AcquireRequest, Inspection, Nesting } from '../locks/kinds/lock-kind.js'
import { PlainKind } from '../locks/kinds/plain.js'
import type { KindTraits } from '../locks/kinds/table.js'
import { Lock } from '../locks/lock.js'
import { permitAcquire, permitInspect, permitRelease, permitRenew } from '../lua/generated.js'
import type { ScriptCall } from '../lua/script.js'
import type { Random } from '../util/random.js'
import { permitLeases, semaphoreChannel } from '../wire/keys.js'
import { whyNoPermits } from './no-permits.js'

/**
 * One or more permits as a hold. Like every hold it knows until when it is valid, its `signal` aborts when it is lost, and
 * `unlock()` or the end of an `await using` block releases all its permits, once.
 */
export type Permit = Hold & { readonly permitIds: readonly string[] }

const PERMIT_TRAITS: KindTraits = { title: 'permit', isShared: true }

/** The permits of one call: each has a random id, which says who holds it. */
export class PermitKind extends PlainKind {
  override readonly noun = 'A permit of semaphore'
  override readonly isDivisible = true
  override readonly tracesHolds = false
  override readonly adopt = undefined
  readonly permitIds: readonly string[]

  constructor(random: Random, permits: number) {
    super('permit', PERMIT_TRAITS)
    this.permitIds = Array.from({ length: permits }, () => random.uuid().replaceAll('-', ''))
  }

  /** Callers who want the same number: one that wants few is not held up by one that wants many. */
  override get queue(): string {
    return `${this.permitIds.length} permits`
  }

  override is(): boolean {
    return false
  }

  override nestingIn(): Nesting {
    return 'apart'
  }

  override holder(): string {
    return this.permitIds.join()
  }

  override channel(key: string): string {
    return semaphoreChannel(key)
  }

  override acquire({ key, leaseTimeMs }: AcquireRequest): ScriptCall {
    return permitAcquire(key, permitLeases(key), leaseTimeMs, semaphoreChannel(key), this.permitIds)
  }

  override renew(key: string, holder: string, leaseTimeMs: number): ScriptCall {
    return permitRenew([permitLeases(key)], [holder, leaseTimeMs])
  }

  override release(key: string): ScriptCall {
    return permitRelease(key, permitLeases(key), semaphoreChannel(key), this.permitIds)
  }

  override inspect(key: string): ScriptCall {
    return permitInspect(key, permitLeases(key), semaphoreChannel(key), this.permitIds)
  }

  override parseInspection(reply: unknown): Inspection {
    const [, , ...left] = toArray(reply).map(toInteger)
    const isHeld = left.every((ms) => ms !== null && ms !== -2)
    return { remainingLeaseMs: 0, holders: isHeld ? [{ holder: this.holder(), holdCount: 1 }] : [] }
  }
}

/** Acquires the permits of one call in the way a lock is acquired. */
export class PermitTaker extends Lock<Permit> {
  override waitTimeout(waitTimeMs: number, details: WaitDetails): WaitTimeoutError {
    return new WaitTimeoutError(this.name, waitTimeMs, true, details)
  }

  override async whoHolds(): Promise<WaitDetails> {
    return await whyNoPermits(this.context, this.key)
  }

  /** Any permit would do. */
  override ownHolders(): readonly KnownHolder[] {
    return []
  }
}
