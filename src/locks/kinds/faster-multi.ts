// Locks on values in a group.
import { toWords } from '../../delivery/replies.js'
import { ConfigError } from '../../errors.js'
import {
  fasterMultiLockAcquire,
  fasterMultiLockInspect,
  fasterMultiLockRelease,
  fasterMultiLockRenew,
  fasterMultiLockSetCount,
  fasterMultiLockShorten,
} from '../../lua/generated.js'
import type { ScriptCall } from '../../lua/script.js'
import { fieldDigest } from '../../wire/highway-hash.js'
import { lockChannel, UNLOCK_MESSAGE } from '../../wire/keys.js'
import type { AcquireRequest, Inspection, LockKind, Nesting } from './lock-kind.js'
import { PlainKind, remaining } from './plain.js'

/** One command takes them all, and Redis serves nobody else meanwhile. */
const MAX_VALUES = 500

/**
 * Several values of one group, all or none, in one hash and one command: Redisson's `RedissonFasterMultiLock`. Each
 * instance is a kind of its own, for its own values.
 */
export class FasterMultiKind extends PlainKind {
  override readonly adopt = undefined
  override readonly isDivisible = true
  /** Sorted, and each value once. */
  readonly #fields: readonly string[]

  /** @throws {ConfigError} a value cannot work, or there is none */
  constructor(group: string, values: readonly string[]) {
    super('fasterMulti')
    this.#fields = [...new Set(digests(group, values))].sort()
  }

  /** Callers that want other values must not wait behind callers that want these. */
  override get queue(): string {
    return this.#fields.join()
  }

  override is(other: LockKind): boolean {
    return other instanceof FasterMultiKind && other.#fields.join() === this.#fields.join()
  }

  override nestingIn(outer: LockKind): Nesting {
    if (this.is(outer)) return 'again'
    if (!(outer instanceof FasterMultiKind)) return 'deadlock'
    return outer.#fields.some((field) => this.#fields.includes(field)) ? 'deadlock' : 'apart'
  }

  override excludes(other: LockKind): boolean {
    return other instanceof FasterMultiKind && this.nestingIn(other) !== 'apart'
  }

  override acquire({ key, holder, leaseTimeMs }: AcquireRequest): ScriptCall {
    return fasterMultiLockAcquire(key, leaseTimeMs, holder, this.#fields)
  }

  override reenter(key: string, holder: string, leaseTimeMs: number, count: number): ScriptCall {
    return fasterMultiLockSetCount(key, leaseTimeMs, holder, count, this.#fields)
  }

  override releaseOne(key: string, holder: string, leaseTimeMs: number, count: number): ScriptCall {
    return fasterMultiLockSetCount(key, leaseTimeMs, holder, count, this.#fields)
  }

  override renew(key: string, holder: string, leaseTimeMs: number): ScriptCall {
    return fasterMultiLockRenew([key], [holder, leaseTimeMs, this.#fields.length, ...this.#fields])
  }

  override shorten(key: string, holder: string, leaseTimeMs: number): ScriptCall {
    return fasterMultiLockShorten(key, leaseTimeMs, holder, this.#fields)
  }

  override release(key: string, holder: string): ScriptCall {
    return fasterMultiLockRelease(key, holder, lockChannel(key), UNLOCK_MESSAGE, this.#fields)
  }

  override inspect(key: string): ScriptCall {
    return fasterMultiLockInspect(key, this.#fields)
  }

  override parseInspection(reply: unknown): Inspection {
    const [ttl, ...words] = toWords(reply)
    const holders = words.flatMap((holder, index) =>
      index % 3 === 0 ? [{ holder, holdCount: Number(words[index + 1]) }] : [],
    )
    const partial = holders.filter((_, index) => Number(words[3 * index + 2]) < this.#fields.length)
    return { remainingLeaseMs: remaining(Number(ttl)), holders, partial: partial.map(({ holder }) => holder) }
  }
}

function digests(group: string, values: readonly string[]): string[] {
  if (!Array.isArray(values) || values.length === 0) {
    throw new ConfigError('values', values, 'an array of at least one string', { lockName: group })
  }
  if (values.length > MAX_VALUES) {
    throw new ConfigError('values', undefined, `at most ${MAX_VALUES} values`, { lockName: group })
  }
  return values.map((value, index) => {
    if (typeof value !== 'string' || !value.isWellFormed()) {
      throw new ConfigError(`values[${index}]`, value, 'well-formed text', { lockName: group })
    }
    return fieldDigest(value)
  })
}
