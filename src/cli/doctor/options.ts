// The options of holdfast doctor.
import { ROLES, type Role } from '../../doctor/acl.js'
import { parseCommandLine } from '../command-line.js'
import { UsageError } from '../exit-codes.js'
import { type Target, targetOf } from '../target.js'

export interface DoctorOptions {
  target: Target
  json: boolean
  isVerbose: boolean
  /** Only print the ACL rule. */
  acl: boolean
  /** Whether an address was given; otherwise `target` is the default. */
  isTargetGiven: boolean
  /** The purpose of the Redis user in the rule. */
  role: Role
  /** Its name. */
  user: string
  /** The prefix of lock names, in the rule and for trial locks. */
  prefix: string
}

const OPTIONS = {
  redis: { type: 'string' },
  config: { type: 'string' },
  prefix: { type: 'string', default: 'lock:' },
  json: { type: 'boolean', default: false },
  verbose: { type: 'boolean', default: false },
  acl: { type: 'boolean', default: false },
  role: { type: 'string' },
  user: { type: 'string' },
  help: { type: 'boolean', short: 'h', default: false },
} as const

/**
 * @returns undefined if help was asked for
 * @throws {UsageError} it is invalid
 */
export function parseDoctorOptions(args: string[], env: NodeJS.ProcessEnv): DoctorOptions | undefined {
  const { values } = parseCommandLine({ args, options: OPTIONS })
  if (values.help) return undefined
  if (values.user !== undefined && !values.acl) throw new UsageError('--user needs --acl')
  const role = parseRole(values.role ?? 'app')
  return {
    target: targetOf(values, env),
    json: values.json,
    isVerbose: values.verbose,
    acl: values.acl,
    isTargetGiven: Boolean(values.redis ?? values.config ?? (env['HOLDFAST_CONFIG'] || env['REDIS_URL'])),
    role,
    user: word('--user', values.user ?? role),
    prefix: word('--prefix', values.prefix),
  }
}

function parseRole(text: string): Role {
  const role = ROLES.find((known) => known === text)
  if (role) return role
  throw new UsageError(`--role: expected ${ROLES.join(', ')}, not ${JSON.stringify(text)}`)
}

/** In the rule, a space would end the word. */
function word(option: string, text: string): string {
  if (/^[^\s"']+$/.test(text)) return text
  throw new UsageError(`${option}: expected text without spaces or quotes, not ${JSON.stringify(text)}`)
}
