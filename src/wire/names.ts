import { ConfigError } from '../errors.js'
import { checkName } from '../util/validate.js'
import { lockChannel } from './keys.js'
import { slotOf } from './slots.js'

/** Maps the names that the program uses to those in Redis: the same for every client. Redisson's `NameMapper`. */
export interface NameMapper {
  map(name: string): string
  unmap(name: string): string
}

/** The name of an object in Redis. @throws {ConfigError} either name cannot be a key */
export function mappedName(mapper: NameMapper | undefined, name: string, noun?: string): string {
  const checked = checkName(name, noun)
  return mapper === undefined ? checked : checkName(mapper.map(checked), 'nameMapper.map')
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
