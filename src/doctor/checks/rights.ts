// Checks the ACL of the user.
import { AUDIT_KEY, fencingTokenKey, forcedKey, JOBS_KEY, lockChannel, turnQueueKey } from '../../wire/keys.js'
import {
  AUDIT_COMMANDS,
  CLIENT_COMMANDS,
  CLUSTER_COMMANDS,
  LISTING_COMMANDS,
  namesOf,
  PLAIN_COMMANDS,
  READ_COMMANDS,
  REPLICA_COMMANDS,
  type Role,
  SCRIPT_COMMANDS,
  SHARDED_COMMANDS,
  SHARDED_LISTING_COMMANDS,
} from '../acl.js'
import type { Check } from '../check.js'
import { note, ok, problem, warning } from '../finding.js'
import { isBefore, type Server } from '../server.js'
import type { DeploymentUnderTest } from '../target.js'

export const ACL_FIX = 'paste the output of this into redis-cli: holdfast doctor --acl --user <user> --prefix <prefix>'

function fixFor(role: Role): string {
  return role === 'app' ? ACL_FIX : ACL_FIX.replace('--acl', `--acl --role ${role}`)
}

/** Commands that no program needs for locks. */
const TOO_MUCH = ['flushall', 'config set x y', 'acl setuser x', 'keys *']

export const rightsChecks: readonly Check[] = [
  {
    id: 'rights',
    group: 'Locks',
    title: 'Rights',
    why: 'A script needs all of its commands and keys: Redis does not undo one that is denied halfway.',
    isOnce: true,
    async run(_server, deployment) {
      const { role } = deployment
      const server = deployment.ownerOf(deployment.trialName)
      if (await server.isReplica().catch(() => false)) return undefined
      // Without INFO the version is unknown: assume a new one.
      const version = await server.version().catch(() => undefined)
      const way = version && isBefore(version.compatible, 7) ? 'try' : 'ask'
      const { commands, names, excess } = await missingRights(server, deployment, way)
      if (commands.length + names.length === 0) {
        if (!excess) return ok('all that are needed, and not much more')
        return note(`all that are needed; this user may also ${excess}`, `to create a user for locks, ${fixFor(role)}`)
      }
      const message = [
        ...(commands.length > 0 ? [`not allowed: ${commands.join(', ')}`] : []),
        ...asPatterns(names, deployment).map(([pattern, kinds]) => `no right to ${pattern}, for ${kinds}`),
      ].join('; ')
      const needed = [...(role === 'viewer' ? READ_COMMANDS : PLAIN_COMMANDS), 'evalsha', 'eval', 'time']
      const isForAll =
        commands.some((command) => needed.includes(command)) || names.some(([, kinds]) => kinds === 'all locks')
      return isForAll ? problem(message, fixFor(role)) : warning(message, fixFor(role))
    },
  },
]

interface MissingRights {
  /** The names of commands. */
  readonly commands: string[]
  readonly names: [name: string, kinds: string][]
  /** The rights that this user has but should not have. */
  readonly excess: string | undefined
}

/**
 * In Redis 7 a script can ask what its user may do. Before, each command is tried on keys of the trial lock. No key is
 * declared, because EVAL itself would be denied. Replies for each command with 1 (allowed), 0, or ? (unknown).
 */
const RIGHTS = `
local function isAllowed(words)
  if ARGV[1] == 'ask' then
    local isKnown, allowed = pcall(redis.acl_check_cmd, unpack(words))
    return not isKnown and '?' or allowed and '1' or '0'
  end
  local reply = redis.pcall(unpack(words))
  local message = type(reply) == 'table' and reply.err or ''
  local isDenied = string.find(message, 'NOPERM') or string.find(message, "can't") or string.find(message, 'permission')
  return isDenied and '0' or '1'
end
local reply = ''
for _, words in ipairs(cjson.decode(ARGV[2])) do
  reply = reply .. isAllowed(words)
end
if ARGV[1] == 'try' then
  for _, key in ipairs(cjson.decode(ARGV[3])) do
    redis.pcall('del', key)
  end
end
return reply`

/**
 * Every right that this user lacks.
 * @param way  whether to ask Redis (7 and later) or to try
 */
export async function missingRights(
  server: Server,
  deployment: Pick<DeploymentUnderTest, 'prefix' | 'trialName' | 'isCluster' | 'role'>,
  way: 'ask' | 'try',
): Promise<MissingRights> {
  const { isCluster, role } = deployment
  const { keys, channels } = trialNamesOf(deployment)
  const areDenied: AreDenied = async (commands) => {
    const args = [way, JSON.stringify(commands), JSON.stringify([...keys.keys()])]
    const reply = await server.textOf('EVAL', RIGHTS, '0', ...args)
    return commands.map((_, at) => reply[at] === '0')
  }
  const scripted = Object.entries(SCRIPT_COMMANDS).filter(([name]) => role !== 'viewer' || READ_COMMANDS.includes(name))
  const inScripts = await deniedOf(areDenied, scripted, [...keys])
  const onChannels =
    way === 'try' ? ['publish'] : ['publish', 'subscribe', ...(isCluster ? ['spublish', 'ssubscribe'] : [])]
  const inMessages = await deniedOf(
    areDenied,
    onChannels.map((command) => [command, command.endsWith('publish') ? 'x' : '']),
    [...channels],
  )
  const { names, commands } = await beyondLocks(areDenied, deployment)
  const others = [
    ...CLIENT_COMMANDS,
    ...REPLICA_COMMANDS.filter((command) => role !== 'viewer' || !command.startsWith('wait')),
    ...(isCluster ? [...SHARDED_COMMANDS, ...CLUSTER_COMMANDS] : []),
    ...(role === 'app' ? [] : [...LISTING_COMMANDS, ...(isCluster ? SHARDED_LISTING_COMMANDS : [])]),
  ]
    .map((line) => line.split(' '))
    .filter(([name = '']) => way === 'ask' && !onChannels.includes(name))
  const deniedOthers = await areDenied(others)
  return {
    commands: [
      ...inScripts.commands,
      ...inMessages.commands,
      ...commands,
      ...others.flatMap(([name = '', sub = ''], at) =>
        deniedOthers[at] ? [['cluster', 'pubsub'].includes(name) ? `${name} ${sub}` : name] : [],
      ),
    ],
    names: [...inScripts.names, ...inMessages.names, ...names],
    excess: way === 'ask' ? await excessOf(areDenied, deployment) : undefined,
  }
}

/** Forced releases: their marks, which those never write whose locks are forced, and the audit. And the list of jobs. */
async function beyondLocks(
  areDenied: AreDenied,
  { trialName, role }: Pick<DeploymentUnderTest, 'trialName' | 'role'>,
): Promise<Pick<MissingRights, 'commands' | 'names'>> {
  const mark = forcedKey(trialName, 'x')
  const [forced, jobs] = ['forced releases', 'holdfast run']
  // Before Redis 7 they are tried: no job has this name.
  const recording = [jobs, JOBS_KEY, `zrem ${trialName}`] as const
  const needed: Record<Role, readonly (readonly [kinds: string, key: string, ...commands: string[]])[]> = {
    app: [[forced, mark, 'get'], recording],
    viewer: [
      [forced, AUDIT_KEY, 'lrange 0 0'],
      [jobs, JOBS_KEY, 'zrange 0 0'],
    ],
    operator: [[forced, mark, 'get', 'set x'], [forced, AUDIT_KEY, ...AUDIT_COMMANDS], recording],
  }
  const denied = await Promise.all(
    needed[role].map(async ([kinds, key, ...lines]) => {
      const commands = lines.map((line): [string, string] => {
        const [name = '', ...args] = line.split(' ')
        return [name, args.join(' ')]
      })
      return await deniedOf(areDenied, commands, [[key, kinds]])
    }),
  )
  return { commands: denied.flatMap(({ commands }) => commands), names: denied.flatMap(({ names }) => names) }
}

/** For each command with its arguments, whether this user is denied it. */
type AreDenied = (commands: readonly string[][]) => Promise<boolean[]>

/** The keys and channels of an ordinary name, and of one with a brace, which is used as it is. */
function trialNamesOf({ prefix, trialName, role }: Pick<DeploymentUnderTest, 'prefix' | 'trialName' | 'role'>) {
  const usual = namesOf(trialName, role)
  const other = namesOf(`${prefix}{${trialName.slice(prefix.length)}}`, role)
  const all = (one: Map<string, string>, more: Map<string, string>): Map<string, string> =>
    new Map([...[...more].map(([name, kinds]) => [name, `${kinds} with braces in their names`] as const), ...one])
  return { keys: all(usual.keys, other.keys), channels: all(usual.channels, other.channels) }
}

async function excessOf(
  areDenied: AreDenied,
  { prefix, trialName, role }: Pick<DeploymentUnderTest, 'prefix' | 'trialName' | 'role'>,
): Promise<string | undefined> {
  const denied = async (lines: readonly string[]): Promise<boolean[]> =>
    await areDenied(lines.map((line) => line.split(' ')))
  if (!(await denied(TOO_MUCH)).includes(true)) return 'do much more (FLUSHALL, CONFIG SET …)'
  if (role === 'viewer' && !(await denied([`hset ${trialName} f v`])).includes(true)) return 'change locks'
  if (prefix === '') return undefined
  const foreign = trialName.slice(prefix.length)
  // These harm other locks: their fencing tokens and their waiters.
  const harm = [
    `set ${fencingTokenKey(foreign)} 1`,
    `lpop ${turnQueueKey(foreign)}`,
    `publish ${lockChannel(foreign)} 0`,
  ]
  return (await denied(harm)).includes(false) ? `change locks whose names do not begin with ${prefix}` : undefined
}

/** As patterns for ACL SETUSER. */
function asPatterns(
  names: readonly [name: string, kinds: string][],
  { prefix, trialName }: Pick<DeploymentUnderTest, 'prefix' | 'trialName'>,
): [pattern: string, kinds: string][] {
  const random = trialName.slice(prefix.length)
  const kindsOf = new Map<string, string[]>()
  for (const [name, kinds] of names) {
    const pattern = `${name.split(random, 1)[0]?.replace(/\{$/, '')}*`
    kindsOf.set(pattern, [...new Set([...(kindsOf.get(pattern) ?? []), kinds])])
  }
  return [...kindsOf].map(([pattern, kinds]) => [pattern, kinds.join(', ')])
}

/** A command is denied if it is denied for every name; a name, if any other command is denied for it. */
async function deniedOf(
  areDenied: AreDenied,
  commands: readonly (readonly [command: string, args: string])[],
  names: [name: string, kinds: string][],
): Promise<{ commands: string[]; names: [name: string, kinds: string][] }> {
  const denied = await areDenied(
    commands.flatMap(([command, args]) => names.map(([name]) => [command, name, ...args.split(' ').filter(Boolean)])),
  )
  const deniedNames = commands.map(([command], row) => ({
    command,
    names: names.filter((_, column) => denied[row * names.length + column]),
  }))
  const isEvery = (those: { names: unknown[] }): boolean => those.names.length === names.length
  // If everything is denied, it is because of the names.
  if (deniedNames.every(isEvery)) return { commands: [], names }
  return {
    commands: deniedNames.filter(isEvery).map(({ command }) => command),
    names: names.filter((name) => deniedNames.some((those) => !isEvery(those) && those.names.includes(name))),
  }
}
