// @Locked.
import { AsyncLocalStorage } from 'node:async_hooks'
import { Inject } from '@nestjs/common'
import { type Client, lockOfKind } from '../client.js'
import { ConfigError, NotHeldError } from '../errors.js'
import type { Hold } from '../locks/hold.js'
import { KINDS, NAMED_KIND_IDS, type NamedKindId } from '../locks/kinds/table.js'
import {
  checkMaxWaiters,
  checkOrder,
  checkPriority,
  HOLD_OPTIONS,
  type HoldOptions,
  type OrderOptions,
  type WithLockOptions,
} from '../locks/options.js'
import { shared } from '../util/shared.js'
import { checkLabel, checkLeaseTime, checkOptionalDuration, MIN_LEASE_MS, ownOptions } from '../util/validate.js'
import { getHoldfastToken } from './inject.js'
import { badName, lockKeysOf, type NameOf, parseTemplate } from './lock-name.js'

export type LockedKind = NamedKindId

/** A function receives the arguments of the call; what it returns or throws, the call returns or throws. */
export type OnBusy = 'throw' | 'skip' | ((...args: never[]) => unknown)

export interface LockedOptions<Busy extends OnBusy = OnBusy> extends HoldOptions {
  /** Which kind of lock; default `lock`, the plain re-entrant one. */
  kind?: LockedKind | undefined
  /** Longest wait, ms, from the call; 0 tries once. Absent: no limit if `onBusy` is `throw`, else 0. */
  waitTimeMs?: number | undefined
  /**
   * The reaction to a wait that ended without the lock: `throw` a `WaitTimeoutError` (default), `skip` the method and
   * return undefined, or call a function and return its result.
   */
  onBusy?: Busy | undefined
  /**
   * The shortest time between two runs with this lock, across all processes, ms from the grant; at least 10. The lock stays
   * taken until then, even if the method ends early or this process dies. For cron jobs: an instance whose clock is late
   * must not run the job again.
   */
  atLeastMs?: number | undefined
  /** `'fifo'`: in order, across processes; for the kinds `lock`, `read` and `write`. */
  order?: 'fifo' | undefined
  /** With `order`: who waits with a higher one goes first, −1,000 to 1,000. Default 0. */
  priority?: number | undefined
  /** With `order`, or for fair locks: if as many wait, the call rejects at once with `QueueFullError`. */
  maxWaiters?: number | undefined
  /** The name of the client; default: the client without a name. */
  client?: string | undefined
}

const LOCKED_OPTIONS = {
  ...HOLD_OPTIONS,
  kind: 1,
  waitTimeMs: 1,
  onBusy: 1,
  atLeastMs: 1,
  client: 1,
  order: 1,
  maxWaiters: 1,
  priority: 1,
}

/** The kinds that can be granted in order. */
const ORDERED: readonly LockedKind[] = ['lock', 'read', 'write']

/** The arguments that a function requires. */
type Needs<F> = F extends (...args: infer A) => unknown ? [...A, ...unknown[]] : unknown[]
/** The result of the method if it did not run. */
type Instead<Busy> = Busy extends 'skip' ? undefined : Busy extends (...args: never[]) => infer V ? Awaited<V> : never

/** For a method whose promise may also resolve to what is returned if it did not run. */
export type LockedDecorator<Name, Busy> = <A extends Needs<Name> & Needs<Busy>, R>(
  target: object,
  method: string | symbol,
  descriptor: TypedPropertyDescriptor<(...args: A) => Promise<R | Instead<Busy>>>,
) => void

type Method = (this: object, ...args: unknown[]) => unknown

const holds = shared('locked-holds.1', () => new AsyncLocalStorage<Hold>())

/**
 * Run the method with the lock held, as `withLock` does: what it calls can re-enter the lock, which is released when the
 * method's promise settles. For providers and controllers of Nest, in any order with decorators that only describe the
 * method; put it above those that wrap it.
 * @param name  a template such as `order:{0}` or `order:{0.id}`, with arguments by number or by `@LockKey`; or a function
 *   that returns the name for the arguments
 * @throws {ConfigError} at once, if the template cannot be parsed or an option cannot work; from the method, before any
 *   command, if the arguments do not make a name
 * @example `@Locked('lock:order:{0}', { waitTimeMs: 5_000 }) async charge(orderId: string) {}`
 */
export function Locked<const Name extends string | ((...args: never[]) => string), const Busy extends OnBusy = 'throw'>(
  name: Name,
  options: LockedOptions<Busy> = {},
): LockedDecorator<Name, Busy> {
  return (target, method, descriptor) => {
    const shownName = typeof name === 'string' ? JSON.stringify(name) : 'a function'
    const className = typeof target === 'function' ? target.name : target.constructor.name
    const where = `@Locked(${shownName}) on ${className}.${String(method)}`
    const original: unknown = descriptor?.value
    if (typeof original !== 'function' || typeof target === 'function') {
      throw new ConfigError(where, undefined, 'a method of instances')
    }
    const nameOf = nameReader(name, target, method, where)
    const terms = checkOptions(options, where, `${className}.${String(method)}`)
    const property = injectClient(target, terms.client)

    const locked: Method = async function (...args) {
      const lockName = nameOf(args)
      const client = (this as Record<symbol, Client | undefined>)[property]
      if (!client) throw new ConfigError(where, undefined, 'an instance created by Nest: a provider or a controller')
      return await run(client, lockName, terms, args, () => (original as Method).apply(this, args))
    }
    dressAs(locked, original)
    descriptor.value = locked as typeof descriptor.value & {}
  }
}

/**
 * The hold of the innermost `@Locked` method around the caller: for its `signal`, `assertHeld()` and `fencingToken`.
 * @throws {NotHeldError} the call chain is not inside such a method
 * @example `await fetch(url, { signal: currentHold().signal })`
 */
export function currentHold(): Hold {
  const hold = holds.getStore()
  if (hold) return hold
  throw new NotHeldError('currentHold() was called outside of any @Locked method')
}

type Terms = WithLockOptions &
  Pick<LockedOptions, 'client'> & {
    kind: LockedKind
    onBusy: OnBusy
    queue: OrderOptions | undefined
  }

async function run(client: Client, lockName: string, terms: Terms, args: unknown[], work: () => unknown) {
  const { kind, onBusy, client: _, queue, ...options } = terms
  const lock = lockOfKind(client, kind, lockName, queue)
  const body = async (hold: Hold): Promise<unknown> => await holds.run(hold, work)
  if (onBusy === 'throw') return await lock.withLock(options, body)
  const { ran, value } = await lock.tryWithLock(options, body)
  if (ran) return value
  return onBusy === 'skip' ? undefined : await (onBusy as (...args: unknown[]) => unknown)(...args)
}

function nameReader(name: unknown, target: object, method: string | symbol, where: string): NameOf {
  if (typeof name === 'string' && name !== '') return parseTemplate(name, lockKeysOf(target, method), where)
  if (typeof name !== 'function') throw new ConfigError(where, undefined, 'a template, or a function of the arguments')
  return (args) => {
    const lockName: unknown = name(...args)
    if (typeof lockName === 'string' && lockName !== '') return lockName
    const found = lockName === undefined ? ', not undefined' : ''
    throw badName(new ConfigError(where, lockName, `the function to return a non-empty string${found}`))
  }
}

function checkOptions(options: LockedOptions, where: string, label: string): Terms {
  const own = ownOptions(options, LOCKED_OPTIONS, where)
  const { kind = 'lock', onBusy = 'throw' } = own
  if (!NAMED_KIND_IDS.includes(kind)) {
    throw new ConfigError('kind', kind, `one of ${NAMED_KIND_IDS.join(', ')}`, { lockName: where })
  }
  if (onBusy !== 'throw' && onBusy !== 'skip' && typeof onBusy !== 'function') {
    throw new ConfigError('onBusy', onBusy, "'throw', 'skip' or a function", { lockName: where })
  }
  if (own.atLeastMs !== undefined && KINDS[kind].isShared) {
    const allowed = `a lock that one owner holds at a time, which a ${KINDS[kind].title} is not`
    throw new ConfigError('atLeastMs', undefined, allowed, { lockName: where })
  }
  checkLabel(own.label, where)
  checkLeaseTime(own.leaseTimeMs, where)
  for (const [path, value, least] of [
    ['atLeastMs', own.atLeastMs, MIN_LEASE_MS],
    ['waitTimeMs', own.waitTimeMs, 0],
    ['maxHoldMs', own.maxHoldMs, 1],
    ['warnAfterMs', own.warnAfterMs, 1],
  ] as const) {
    checkOptionalDuration(path, value, least, where)
  }
  const queue = queueOf(kind, own, where)
  for (const name of ['order', 'maxWaiters']) Reflect.deleteProperty(own, name)
  return Object.assign(own, { label: own.label ?? label, kind, onBusy, queue })
}

/** @returns undefined: none of them is given */
function queueOf(
  kind: LockedKind,
  { order, maxWaiters, priority }: Pick<LockedOptions, 'order' | 'maxWaiters' | 'priority'>,
  where: string,
): OrderOptions | undefined {
  const ordered = ORDERED.includes(kind) ? checkOrder({ order, maxWaiters }, where) : undefined
  if (!ordered && (order ?? priority) !== undefined) {
    const path = order === undefined ? 'priority' : 'order'
    throw new ConfigError(path, order ?? priority, `a kind that has an order: ${ORDERED.join(', ')}`, {
      lockName: where,
    })
  }
  checkPriority(priority, where)
  if (ordered) return { order, maxWaiters }
  if (maxWaiters === undefined) return undefined
  if (!KINDS[kind].isQueuedInRedis) {
    throw new ConfigError('maxWaiters', maxWaiters, "a fair lock, or `order: 'fifo'`", { lockName: where })
  }
  return { maxWaiters: checkMaxWaiters(maxWaiters, where) }
}

/** Nest injects the client into a property of every instance: if there is no such client, the application does not start. */
function injectClient(target: object, name: string | undefined): symbol {
  const token = getHoldfastToken(name)
  const property = Symbol.for(token)
  if (!(property in target)) {
    Inject(token)(target, property)
    Object.defineProperty(target, property, { value: undefined, writable: true })
  }
  return property
}

/** Other decorators keep their metadata with the function itself. */
function dressAs(locked: Method, original: object): void {
  Object.defineProperties(locked, Object.getOwnPropertyDescriptors(original))
  for (const key of Reflect.getOwnMetadataKeys(original)) {
    Reflect.defineMetadata(key, Reflect.getOwnMetadata(key, original), locked)
  }
}
