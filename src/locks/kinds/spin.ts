// Polls, without pub/sub.
import { ConfigError } from '../../errors.js'
import { lockRelease } from '../../lua/generated.js'
import type { ScriptCall } from '../../lua/script.js'
import type { Random } from '../../util/random.js'
import { checkDuration, ownOptions } from '../../util/validate.js'
import { PlainKind } from './plain.js'

/**
 * How long a spin lock sleeps between attempts, ms.
 * - `exponential`: from `initialDelayMs` (1), times `multiplier` (2) with some jitter, up to `maxDelayMs` (128)
 * - `constant`: `delayMs` (64)
 * @see Redisson `LockOptions.BackOff`: same defaults
 */
export type BackOff =
  | {
      readonly type: 'exponential'
      readonly initialDelayMs?: number
      readonly maxDelayMs?: number
      readonly multiplier?: number
    }
  | { readonly type: 'constant'; readonly delayMs?: number }

export interface SpinLockOptions {
  /** Default: exponential. */
  readonly backOff?: BackOff | undefined
}

/** A lock whose waiters poll without a subscription, Redisson's `RedissonSpinLock`; its release wakes nobody. */
export class SpinKind extends PlainKind {
  readonly pace: (random: Random) => () => number

  /** @throws {ConfigError} an option cannot work */
  constructor(lockName: string, options: SpinLockOptions = {}) {
    super('spin')
    const { backOff = { type: 'exponential' } } = ownOptions(options, { backOff: 1 }, lockName)
    this.pace = paceOf(backOff, lockName)
  }

  override channel(): undefined {
    // nobody is woken: callers poll
  }

  override release(key: string, holder: string): ScriptCall {
    return lockRelease(key, holder, '', '')
  }
}

/** The pace of the default back-off. */
export const SPIN_PACE = paceOf({ type: 'exponential' }, '')

function paceOf(backOff: BackOff, lockName: string): (random: Random) => () => number {
  if (backOff?.type === 'constant') {
    const { delayMs = 64 } = ownOptions(backOff, { type: 1, delayMs: 1 }, lockName)
    checkDuration('backOff.delayMs', delayMs, 1, lockName)
    return () => () => delayMs
  }
  if (backOff?.type !== 'exponential') {
    throw new ConfigError('backOff.type', (backOff as BackOff)?.type, '"exponential" or "constant"', { lockName })
  }
  const known = { type: 1, initialDelayMs: 1, maxDelayMs: 1, multiplier: 1 }
  const { initialDelayMs = 1, maxDelayMs = 128, multiplier = 2 } = ownOptions(backOff, known, lockName)
  checkDuration('backOff.initialDelayMs', initialDelayMs, 1, lockName)
  checkDuration('backOff.maxDelayMs', maxDelayMs, initialDelayMs, lockName)
  if (!Number.isSafeInteger(multiplier) || multiplier < 1) {
    throw new ConfigError('backOff.multiplier', multiplier, 'a whole number of at least 1', { lockName })
  }
  return (random) => {
    let delayMs = initialDelayMs
    let calls = 0
    return () => {
      const current = delayMs
      // The jitter grows with the attempts, as in Redisson, so that waiters drift apart.
      delayMs = Math.min(maxDelayMs, delayMs * multiplier + Math.floor(random.fraction() * ++calls))
      return current
    }
  }
}
