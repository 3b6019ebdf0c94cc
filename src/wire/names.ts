// Name mappers, names that hash to another slot.
import { ConfigError } from '../errors.js'
import { checkName } from '../util/validate.js'
import { lockChannel } from './keys.js'
import { slotOf } from './slots.js'

/** Maps the names that the program uses to those in Redis: the same for every client. Redisson's `NameMapper`. */
export interface NameMapper {
  map(name: string): string
  /** Also for names that others have given. If it throws, messages have the name in Redis. */
  unmap(name: string): string
}

/** The name of an object in Redis. @throws {ConfigError} either name cannot be a key */
export function mappedName(mapper: NameMapper | undefined, name: string, noun?: string): string {
  const checked = checkName(name, noun)
  return mapper === undefined ? checked : checkName(mapper.map(checked), 'nameMapper.map')
}

/**
 * The name that the program uses for an object in Redis. A mapper that throws, or returns no text, is a bug of the user's: it
 * must not stop the renewals of other locks, or hide them from a list, so the name in Redis is the answer.
 */
export function unmappedName(mapper: NameMapper | undefined, name: string): string {
  if (mapper === undefined) return name
  try {
    const unmapped: unknown = mapper.unmap(name)
    return typeof unmapped === 'string' ? unmapped : name
  } catch {
    return name
  }
}

export function checkNameMapper(mapper: unknown): NameMapper | undefined {
  if (mapper === undefined) return undefined
  const { map, unmap } = (mapper ?? {}) as Partial<NameMapper>
  if (typeof map === 'function' && typeof unmap === 'function') return mapper as NameMapper
  throw new ConfigError('nameMapper', mapper, 'an object with the functions map and unmap')
}

/**
 * Returns the name if all of its keys share a cluster slot. With a single brace, or nothing between two, they do not.
 * @throws {ConfigError} they do not
 */
export function checkSlots(name: string, noun = 'lock name'): string {
  if (slotOf(name) === slotOf(lockChannel(name))) return name
  throw new ConfigError(noun, name, 'in a cluster a name without braces, or with text between the first { and a }')
}
