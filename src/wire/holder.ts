import { ConfigError } from '../errors.js'

/**
 * How a holder is spelled on the wire: `<client id>:<owner id>`, as Redisson's `<uuid>:<thread id>`
 * (`RedissonBaseLock.getLockName`). The client id is a UUID made when the client is created; the owner id is a positive
 * integer, Java's thread id.
 */
export function spellHolder(clientId: string, ownerId: number): string {
  return `${clientId}:${ownerId}`
}

/**
 * What the ids of all Holdfast clients end with, so that a script can tell them from Redisson's. What is left is random
 * enough: 90 bits.
 */
const MARK = '401dfa57'

/** @param uuid  of version 4, as Redisson's client ids */
export function markedId(uuid: string): string {
  return uuid.replace(/(?<=-[0-9a-f]{4})[0-9a-f]{8}$/, MARK)
}

/**
 * Who holds inside one client: what a thread is in Java.
 *
 * It has at most one lease of a lock at a time: two would share one field in Redis, and the release of one would end
 * the other. And once a command about a field is unsettled, or a hold was lost or handed over, it takes that field no
 * more: a late copy of its release could end what it takes next. It is spent for that field, for good.
 */
export class Owner {
  readonly id: number
  readonly #claimed = new Set<string>()
  #retired: Set<string> | undefined

  constructor(id: number) {
    this.id = id
  }

  /**
   * Whether it may take this now; if so nobody else may by this owner until `free`.
   * @param field  names a field that holder has in Redis
   */
  claim(field: string): boolean {
    if (this.#retired?.has(field) || this.#claimed.has(field)) return false
    this.#claimed.add(field)
    return true
  }

  /** Whether it has any field of the same lock: who writes may read, but that is for the writer itself. */
  hasBeside(field: string): boolean {
    return [...this.#claimed].some((other) => lockOf(other) === lockOf(field))
  }

  /** Whether this is the only field it has, or is about to have, of that lock. */
  hasOnly(field: string): boolean {
    for (const other of this.#claimed) if (other !== field && lockOf(other) === lockOf(field)) return false
    return true
  }

  free(field: string): void {
    this.#claimed.delete(field)
  }

  /** Never again this field. */
  retire(field: string): void {
    this.#retired ??= new Set()
    this.#retired.add(field)
  }

  isRetiredFor(field: string): boolean {
    return this.#retired?.has(field) ?? false
  }

  /** Whether it is of no more use for some field; then a scope goes on with a new owner. */
  get isRetired(): boolean {
    return this.#retired !== undefined
  }
}

/** A field is `<suffix of the holder>/<lock name>`. */
function lockOf(field: string): string {
  return field.slice(field.indexOf('/'))
}

/** Mints owners with ids unique in one client. 2^53 of them outlast any process. */
export class Owners {
  #lastId = 0

  next(): Owner {
    return new Owner(++this.#lastId)
  }
}

const HOLDER = /^[\w-]{1,64}:[1-9]\d{0,15}$/

/**
 * A holder that another process passed on.
 * @throws {ConfigError} it is not a holder as `Hold.holder` spells it
 */
export function checkHolder(holder: unknown): string {
  if (typeof holder === 'string' && HOLDER.test(holder)) return holder
  throw new ConfigError('holder', holder, 'the holder of a hold, "<client id>:<owner id>"')
}
