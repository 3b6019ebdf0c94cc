import { AsyncLocalStorage } from 'node:async_hooks'
import { Inject } from '@nestjs/common'
import type { Client } from '../client.js'
import { ConfigError, NotHeldError, WaitTimeoutError } from '../errors.js'
import type { HoldOptions, LockOptions } from '../locks/base-lock.js'
import { runOutside } from '../locks/call-chain.js'
import type { Hold } from '../locks/hold.js'
import type { Lock } from '../locks/lock.js'
import { checkLabel, checkOptionalDuration, LEAST_LEASE_MS, ownOptions } from '../util/validate.js'
import { getHoldfastToken } from './inject.js'
import { lockKeysOf, type NameOf, parseTemplate } from './lock-name.js'

const KINDS = {
  lock: (client: Client, name: string): Lock => client.getLock(name),
  fair: (client: Client, name: string): Lock => client.getFairLock(name),
  nonReentrant: (client: Client, name: string): Lock => client.getNonReentrantLock(name),
  nonReentrantFair: (client: Client, name: string): Lock => client.getNonReentrantFairLock(name),
  read: (client: Client, name: string): Lock => client.getReadWriteLock(name).readLock(),
  write: (client: Client, name: string): Lock => client.getReadWriteLock(name).writeLock(),
  fenced: (client: Client, name: string): Lock => client.getFencedLock(name),
  spin: (client: Client, name: string): Lock => client.getSpinLock(name),
  string: (client: Client, name: string): Lock => client.getStringLock(name),
}

export type LockedKind = keyof typeof KINDS

/** A function gets the arguments of the call; what it answers is answered, and what it throws is thrown. */
export type OnBusy = 'throw' | 'skip' | ((...args: never[]) => unknown)

export interface LockedOptions<Busy extends OnBusy = OnBusy> extends HoldOptions {
  /** Which kind of lock; default `lock`, the plain re-entrant one. */
  kind?: LockedKind | undefined
  /** Longest wait, ms, from the call; 0 asks once. Absent: no limit if `onBusy` is `throw`, else 0. */
  waitTimeMs?: number | undefined
  /**
   * What to do when the wait has ended and somebody else has the lock: `throw` a `WaitTimeoutError` (default), `skip` the
   * method and answer undefined, or call a function and answer what it answers.
   */
  onBusy?: Busy | undefined
  /**
   * Nobody runs the method again for this name before so much time has passed since it began, ms, at least 10; however
   * soon it ends, and also if this process dies. For cron jobs: an instance whose clock is late must not do it again.
   */
  atLeastMs?: number | undefined
  /** The name of the client; default: the one without a name. */
  client?: string | undefined
}

const OPTIONS = [
  'leaseTimeMs',
  'maxHoldMs',
  'warnAfterMs',
  'label',
  'kind',
  'waitTimeMs',
  'onBusy',
  'atLeastMs',
  'client',
]

/** The arguments that a function needs at least. */
type Needs<F> = F extends (...args: infer A) => unknown ? [...A, ...unknown[]] : unknown[]
/** What the method answers when it did not run. */
type Instead<Busy> = Busy extends 'skip' ? undefined : Busy extends (...args: never[]) => infer V ? Awaited<V> : never

/** For a method that answers a promise, of what is answered without it as well. */
export type LockedDecorator<Name, Busy> = <A extends Needs<Name> & Needs<Busy>, R>(
  target: object,
  method: string | symbol,
  descriptor: TypedPropertyDescriptor<(...args: A) => Promise<R | Instead<Busy>>>,
) => void

type Method = (this: object, ...args: unknown[]) => unknown

const holds = new AsyncLocalStorage<Hold>()
const BUSY = Symbol('busy')

/**
 * Run the method with the lock held, as `withLock` does: what it calls may take the same lock again, and the lock is
 * released when the promise of the method has settled. For providers and controllers of Nest, in any order with decorators
 * that only describe the method; put it above those that wrap it.
 * @param name  a template such as `order:{0}` or `order:{0.id}`, of the arguments by number or by `@LockKey`; or a function
 *   of the arguments that answers the name
 * @throws {ConfigError} the template cannot be read or an option cannot work: at once; and from the method, before any
 *   command, if the arguments do not make a name
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
      if (!client) throw new ConfigError(where, undefined, 'an instance that Nest made: a provider or a controller')
      return await run(client, lockName, terms, args, () => (original as Method).apply(this, args))
    }
    dressAs(locked, original)
    descriptor.value = locked as typeof descriptor.value & {}
  }
}

/**
 * The hold of the `@Locked` method that the caller is in, the innermost: for its `signal`, `assertHeld()` and
 * `fencingToken`.
 * @throws {NotHeldError} the call chain is in no such method
 */
export function currentHold(): Hold {
  const hold = holds.getStore()
  if (hold) return hold
  throw new NotHeldError('currentHold() was called outside of every @Locked method')
}

type Terms = LockOptions & Pick<LockedOptions, 'atLeastMs' | 'client'> & { kind: LockedKind; onBusy: OnBusy }

async function run(client: Client, lockName: string, terms: Terms, args: unknown[], work: () => unknown) {
  const { kind, onBusy, atLeastMs, waitTimeMs, client: _, ...others } = terms
  const options = { ...others, waitTimeMs }
  const lock = KINDS[kind](client, lockName)
  const startedAt = performance.now()
  const body = async (hold: Hold): Promise<unknown> => {
    // Who re-enters is part of a call that has its time already.
    if (atLeastMs !== undefined && hold.count === 1) {
      const restMs = waitTimeMs && Math.max(Math.floor(waitTimeMs - (performance.now() - startedAt)), 0)
      const isFirst = await takeTime(client, lockName, atLeastMs, onBusy === 'throw' ? restMs : (restMs ?? 0))
      if (!isFirst) return BUSY
    }
    return await holds.run(hold, work)
  }
  if (onBusy === 'throw') {
    const value = await lock.withLock(options, body)
    if (value === BUSY) throw new WaitTimeoutError(lockName, waitTimeMs ?? 0)
    return value
  }
  const outcome = await lock.tryWithLock(options, body)
  if (outcome.ran && outcome.value !== BUSY) return outcome.value
  return onBusy === 'skip' ? undefined : await (onBusy as (...args: unknown[]) => unknown)(...args)
}

/**
 * A lock of its own keeps the time: its lease is that time, and nobody releases it. So it ends in time even if this process
 * does not live to see it, and holds up no shutdown.
 * @param waitTimeMs  undefined: no limit
 */
async function takeTime(client: Client, lockName: string, atLeastMs: number, waitTimeMs?: number): Promise<boolean> {
  const lock = client.getLock(`${lockName}:at-least`)
  const options = { leaseTimeMs: atLeastMs, label: 'atLeastMs' }
  // It is nobody's: in a scope the next call would re-enter it.
  const hold = await runOutside(() =>
    waitTimeMs === undefined ? lock.lock(options) : lock.tryLock({ ...options, waitTimeMs }),
  )
  hold?.handOver()
  return hold !== null
}

function nameReader(name: unknown, target: object, method: string | symbol, where: string): NameOf {
  if (typeof name === 'string' && name !== '') return parseTemplate(name, lockKeysOf(target, method), where)
  if (typeof name !== 'function') throw new ConfigError(where, undefined, 'a template, or a function of the arguments')
  return (args) => {
    const lockName: unknown = name(...args)
    if (typeof lockName === 'string' && lockName !== '') return lockName
    const found = lockName === undefined ? ', not undefined' : ''
    throw new ConfigError(where, lockName, `the function to answer a text that is not empty${found}`)
  }
}

function checkOptions(options: LockedOptions, where: string, label: string): Terms {
  const own = ownOptions(options, OPTIONS, where)
  const { kind = 'lock', onBusy = 'throw' } = own
  if (!Object.hasOwn(KINDS, kind))
    throw new ConfigError('kind', kind, Object.keys(KINDS).join(', '), { lockName: where })
  if (onBusy !== 'throw' && onBusy !== 'skip' && typeof onBusy !== 'function') {
    throw new ConfigError('onBusy', onBusy, "'throw', 'skip' or a function", { lockName: where })
  }
  if (own.atLeastMs !== undefined && kind === 'read') {
    throw new ConfigError('atLeastMs', undefined, 'a lock that one has at a time, and readers share theirs', {
      lockName: where,
    })
  }
  checkLabel(own.label, where)
  for (const [path, value, least] of [
    ['leaseTimeMs', own.leaseTimeMs, LEAST_LEASE_MS],
    ['atLeastMs', own.atLeastMs, LEAST_LEASE_MS],
    ['waitTimeMs', own.waitTimeMs, 0],
    ['maxHoldMs', own.maxHoldMs, 1],
    ['warnAfterMs', own.warnAfterMs, 1],
  ] as const) {
    checkOptionalDuration(path, value, least, where)
  }
  return Object.assign(own, { label: own.label ?? label, kind, onBusy })
}

/** Nest injects into a property of every instance; so a class that cannot have the client is an error when it starts. */
function injectClient(target: object, name: string | undefined): symbol {
  const token = getHoldfastToken(name)
  const property = Symbol.for(token)
  if (!(property in target)) {
    Inject(token)(target, property)
    Object.defineProperty(target, property, { value: undefined, writable: true })
  }
  return property
}

/** What other decorators said of the method is kept with the function itself. */
function dressAs(locked: Method, original: object): void {
  Object.defineProperties(locked, Object.getOwnPropertyDescriptors(original))
  for (const key of Reflect.getOwnMetadataKeys(original)) {
    Reflect.defineMetadata(key, Reflect.getOwnMetadata(key, original), locked)
  }
}
