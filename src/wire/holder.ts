// Format of a holder; owners.
import { ConfigError } from '../errors.js'

/**
 * A holder on the wire: `<client id>:<owner id>`, as Redisson's `<uuid>:<thread id>` (`RedissonBaseLock.getLockName`). The
 * client id is a UUID that is generated when the client is created; the owner id is a positive integer, as Java's thread id.
 */
export function formatHolder(clientId: string, ownerId: number): string {
  return `${clientId}:${ownerId}`
}

/** The id of the client of a holder; '' if it has none, as in locks of other libraries. */
export function clientIdOf(holder: string): string {
  return holder.slice(0, Math.max(0, holder.indexOf(':')))
}

/**
 * An owner of locks inside one client: the equivalent of a thread in Java.
 *
 * An owner has at most one lease of a lock at a time: two would share one field in Redis, and the release of one would end
 * the other. Once the outcome of a command about a field is unknown, or a hold was lost or handed over, the owner is retired
 * for that field: a late copy of the release could end its next lease. So could the forced release of an operator, who names
 * a holder; hence a scope continues with a new owner after each release. Only a read inside a write has to be of its owner.
 */
export class Owner {
  readonly id: number
  /** Made when first needed: most owners take one lock. */
  #claimed: Set<string> | undefined
  #hasReleased = false
  #retired: Set<string> | undefined

  constructor(id: number) {
    this.id = id
  }

  /**
   * Claims a field until `unclaim` or `released`.
   * @param field  as of `fieldOf`
   * @returns false: it is claimed already, or the owner is retired for it
   */
  claim(field: string): boolean {
    if (this.#retired?.has(field) || this.#claimed?.has(field)) return false
    this.#claimed ??= new Set()
    this.#claimed.add(field)
    return true
  }

  /** Whether it has claimed any field of the same lock: only the writer itself may read inside its write. */
  hasSameLock(field: string): boolean {
    return [...(this.#claimed ?? [])].some((other) => lockOf(other) === lockOf(field))
  }

  /** Whether it has claimed no other field of that lock. */
  hasOnly(field: string): boolean {
    for (const other of this.#claimed ?? []) if (other !== field && lockOf(other) === lockOf(field)) return false
    return true
  }

  /** It took nothing. */
  unclaim(field: string): void {
    this.#claimed?.delete(field)
  }

  /** Redis has released what it took, and no copy of that release is under way. */
  released(field: string): void {
    this.#claimed?.delete(field)
    this.#hasReleased = true
  }

  /** The owner never takes this field again. */
  retire(field: string): void {
    this.#retired ??= new Set()
    this.#retired.add(field)
  }

  isRetiredFor(field: string): boolean {
    return this.#retired?.has(field) ?? false
  }

  /** Whether anything that it took has been released, or may have been; a scope then continues with a new owner. */
  get isSpent(): boolean {
    return this.#hasReleased || this.#retired !== undefined
  }
}

/** A field is `<suffix of the holder>/<lock name>`: see `fieldOf`. */
function lockOf(field: string): string {
  return field.slice(field.indexOf('/'))
}

/** Creates owners with ids that are unique in one client. 2^53 of them outlast any process. */
export class Owners {
  #lastId = 0

  next(): Owner {
    return new Owner(++this.#lastId)
  }
}

const HOLDER = /^[\w-]{1,64}:[1-9]\d{0,15}$/

/**
 * Checks a holder from another process.
 * @throws {ConfigError} it does not have the format of `Hold.holder`
 */
export function checkHolder(holder: unknown, lockName: string): string {
  if (typeof holder === 'string' && HOLDER.test(holder)) return holder
  throw new ConfigError('holder', holder, 'the holder of a hold, "<client id>:<owner id>"', { lockName })
}
