import { ConfigError } from '../errors.js'
import { checkName } from '../util/validate.js'
import { lockChannel } from './keys.js'
import { slotOf } from './slots.js'

/** Between the names that the program uses and those in Redis: the same on all sides. Redisson's `NameMapper`. */
export interface NameMapper {
  map(name: string): string
  unmap(name: string): string
}

/** The name of an object in Redis. @throws {ConfigError} either name cannot be a key */
export function mappedName(mapper: NameMapper | undefined, name: string, noun?: string): string {
  return mapper === undefined ? name : checkName(mapper.map(checkName(name, noun)), 'nameMapper.map')
}

export function checkNameMapper(mapper: unknown): NameMapper | undefined {
  if (mapper === undefined) return undefined
  const { map, unmap } = (mapper ?? {}) as Partial<NameMapper>
  if (typeof map === 'function' && typeof unmap === 'function') return mapper as NameMapper
  throw new ConfigError('nameMapper', mapper, 'an object with the functions map and unmap')
}

/**
 * A name that works in a cluster: what belongs to it must be in one slot. With one brace only, or nothing between two, it is
 * not.
 * @throws {ConfigError} it would not be
 */
export function checkSlots(name: string, noun = 'lock name'): string {
  if (slotOf(name) === slotOf(lockChannel(name))) return name
  throw new ConfigError(noun, name, 'in a cluster a name without braces, or with some text between the first { and a }')
}
