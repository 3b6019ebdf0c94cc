import { parseArgs } from 'node:util'
import { messageOf } from '../../errors.js'
import { UsageError } from '../exit-codes.js'
import { withoutUrls } from '../stderr.js'
import { type Target, targetOf } from '../target.js'

export interface DoctorOptions {
  target: Target
  json: boolean
  isVerbose: boolean
  /** Only print the rule. */
  acl: boolean
  /** Whether anybody said where Redis is; else `target` is a guess. */
  isTargetGiven: boolean
  /** Whom the rule is for. */
  user: string
  /** Of the names of locks: in the rule, and of those that are tried. */
  prefix: string
}

export const DOCTOR_USAGE = `Usage: holdfast doctor [options]

Looks at a deployment of Redis, and says what is wrong with it for locks, why that matters, and how to fix it. It only
reads, but for a trial lock of a random name, which it removes again.

  --redis URL      which Redis to look at (default $HOLDFAST_CONFIG or $REDIS_URL, else redis://127.0.0.1:6379). Other
                   users of this machine can see it in the process list: a password is better off in REDIS_URL
  --config FILE    a configuration of Redisson, YAML or JSON: one server, master and slaves, Sentinel, or a cluster
  --prefix PREFIX  what the names of your locks begin with (default lock:); the names of the trial locks do, too
  --json           print one line of JSON instead: { ok, checks: [{ id, outcome, found, why, fix, … }] }
  --verbose        say why, and how to fix it, also of what is as it should be
  --acl            only print the ACL SETUSER rule for a user of Redis that can do all that Holdfast does on these names,
                   for redis-cli. Replace "secret" in it. It fits the version of the server; without an address it is
                   for Redis 7.2 or later and Valkey
  --user NAME      the name of that user (default app)
  -h, --help       print this

Exit code:
    0  nothing is a problem; there may be warnings
    1  something is
   64  wrong usage
   69  Redis cannot be reached, or refuses the password`

/**
 * @returns undefined if help was asked for
 * @throws {UsageError} it cannot work
 */
export function parseDoctorOptions(args: string[], env: NodeJS.ProcessEnv): DoctorOptions | undefined {
  const values = parse(args)
  if (values.help) return undefined
  if (values.user !== undefined && !values.acl) throw new UsageError('--user: only with --acl')
  return {
    target: targetOf(values, env),
    json: values.json,
    isVerbose: values.verbose,
    acl: values.acl,
    isTargetGiven: Boolean(values.redis ?? values.config ?? (env['HOLDFAST_CONFIG'] || env['REDIS_URL'])),
    user: word('--user', values.user ?? 'app'),
    prefix: word('--prefix', values.prefix),
  }
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      options: {
        redis: { type: 'string' },
        config: { type: 'string' },
        prefix: { type: 'string', default: 'lock:' },
        json: { type: 'boolean', default: false },
        verbose: { type: 'boolean', default: false },
        acl: { type: 'boolean', default: false },
        user: { type: 'string' },
        help: { type: 'boolean', short: 'h', default: false },
      },
    }).values
  } catch (error) {
    // It quotes what was typed, which may be a URL in the wrong place.
    const [problem = ''] = messageOf(error).split(/\. |\.?\n/)
    throw new UsageError(withoutUrls(problem))
  }
}

/** A space would end the word of the rule. */
function word(option: string, text: string): string {
  if (/^[^\s"']+$/.test(text)) return text
  throw new UsageError(`${option}: expected a text without spaces and quotes, not ${JSON.stringify(text)}`)
}
