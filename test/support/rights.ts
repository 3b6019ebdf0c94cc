import { aclRule } from '../../src/doctor/acl.js'
import { ENGINE_VERSION } from './servers/engine.js'

/** The user of the tests' own connections, which may do everything. */
export const ADMIN = 'admin'
/** For connections of `ioredis`. */
export const AS_ADMIN = { username: ADMIN, password: 'none' } as const

const [, , , ...WORDS] = aclRule('default', '', ENGINE_VERSION).split(' ')

/**
 * Arguments of a server on which whoever does not log in may do what `holdfast doctor --acl` grants, and nothing else.
 * Replicas, which log in, and `startRedis`'s admin may do all.
 */
export const RIGHTS_OF_HOLDFAST: readonly string[] = [
  ...['--user', 'default', ...WORDS.map((word) => (word === '>secret' ? 'nopass' : word))],
  ...['--masteruser', ADMIN, '--masterauth', 'none'],
]
