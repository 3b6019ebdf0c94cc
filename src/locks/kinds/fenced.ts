// The specifics of fenced locks: tokens that increase.
import { notOurs, toWords } from '../../delivery/replies.js'
import { fencedLockAcquire, fencedLockAdopt } from '../../lua/generated.js'
import type { ScriptCall } from '../../lua/script.js'
import { tokensWentBack } from '../../warnings.js'
import { fencingTokenKey } from '../../wire/keys.js'
import type { Named } from '../../wire/names.js'
import type { AcquireReply, AcquireRequest, LockKind } from './lock-kind.js'
import { PlainKind, RELEASES_WITH_TURN_QUEUE } from './plain.js'

/** For how many locks a client remembers the highest token. */
const REMEMBERED = 10_000

/**
 * A lock whose every grant has a higher number than all before it: Redisson's `RedissonFencedLock`. Each client has one
 * instance, which remembers the highest token that it has seen of each lock.
 */
export class FencedKind extends PlainKind {
  /** It shares the hash and the channel of a plain lock with the same name. */
  override readonly turnQueue = RELEASES_WITH_TURN_QUEUE
  readonly #seen = new Map<string, bigint>()
  override readonly adopt: LockKind['adopt'] = ({ key, holder, leaseTimeMs }, from) =>
    fencedLockAdopt(key, fencingTokenKey(key), leaseTimeMs, from, holder, this.#seenOf(key))

  constructor() {
    super('fenced')
  }

  override acquire({ key, holder, leaseTimeMs }: AcquireRequest): ScriptCall {
    return fencedLockAcquire(key, fencingTokenKey(key), leaseTimeMs, holder, this.#seenOf(key))
  }

  override parseReply(reply: unknown, { key, name }: Named): AcquireReply {
    const [status = '', value = '', wentBackTo] = toWords(reply)
    if (!/^[01]$/.test(status) || !/^-?\d+$/.test(value)) throw notOurs(reply)
    if (status === '0') return { heldForMs: Number(value) }
    const fencingToken = BigInt(value)
    if (BigInt.asIntN(64, fencingToken) !== fencingToken) throw notOurs(reply) // Redis counts in 64 bits
    const warning = wentBackTo ? tokensWentBack(name, wentBackTo, this.#seenOf(key)) : undefined
    this.#remember(key, fencingToken)
    return warning === undefined ? { isGranted: true, fencingToken } : { isGranted: true, fencingToken, warning }
  }

  #seenOf(key: string): string {
    return String(this.#seen.get(key) ?? 0n)
  }

  #remember(key: string, token: bigint): void {
    if (token < 0n) return // somebody set the counter: the scripts compare numbers without a sign
    this.#seen.delete(key) // moves it to the end: the lock seen longest ago is forgotten first
    this.#seen.set(key, token)
    if (this.#seen.size > REMEMBERED) this.#seen.delete(this.#seen.keys().next().value as string)
  }
}
