// Name mappers, names that hash to another slot.
import { ConfigError } from '../errors.js'
import { checkName } from '../util/validate.js'
import { lockChannel } from './keys.js'
import { slotOf } from './slots.js'

/** A lock or synchronizer. */
export interface Named {
  /** The program's name, in everything that programs and people read. */
  readonly name: string
  /** The name in Redis, in every command, channel and message between clients. */
  readonly key: string
}

/** Maps the names that the program uses to those in Redis: the same for every client. Redisson's `NameMapper`. */
export interface NameMapper {
  map(name: string): string
  /** Also for names that others have given. If it throws, messages have the key. */
  unmap(name: string): string
}

/** The key of an object in Redis. @throws {ConfigError} the name cannot be a key, or what `mapper` makes of it */
export function keyOf(mapper: NameMapper | undefined, name: string, noun?: string): string {
  const checked = checkName(name, noun)
  return mapper === undefined ? checked : checkName(mapper.map(checked), 'nameMapper.map')
}

/**
 * The name that the program uses for a key, where only the key is known. A mapper that throws, or returns no text, is a bug of the user's: it
 * must not stop the renewals of other locks, or hide them from a list, so this returns the key.
 */
export function unmappedName(mapper: NameMapper | undefined, key: string): string {
  if (mapper === undefined) return key
  try {
    const unmapped: unknown = mapper.unmap(key)
    return typeof unmapped === 'string' ? unmapped : key
  } catch {
    return key
  }
}

export function checkNameMapper(mapper: unknown): NameMapper | undefined {
  if (mapper === undefined) return undefined
  const { map, unmap } = (mapper ?? {}) as Partial<NameMapper>
  if (typeof map === 'function' && typeof unmap === 'function') return mapper as NameMapper
  throw new ConfigError('nameMapper', mapper, 'an object with the functions map and unmap')
}

/**
 * Checks that all keys of a lock share a cluster slot. With a single brace, or nothing between two, they do not.
 * @returns the key
 * @throws {ConfigError} they do not
 */
export function checkSlots({ key, name }: Named, noun = 'lock name'): string {
  if (slotOf(key) === slotOf(lockChannel(key))) return key
  const allowed = 'without braces, or with text between the first { and a }'
  const mapped = key === name ? 'a name' : 'a name for which nameMapper.map returns one'
  throw new ConfigError(noun, name, `in a cluster ${mapped} ${allowed}`)
}
