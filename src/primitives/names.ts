import { ConfigError } from '../errors.js'
import { checkName } from '../validate.js'

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
