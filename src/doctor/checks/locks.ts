import { NotReplicatedError } from '../../errors.js'
import { within } from '../../util/timeout.js'
import { fencingTokenKey, lockChannel, turnQueueKey } from '../../wire/keys.js'
import {
  CLIENT_COMMANDS,
  CLUSTER_COMMANDS,
  namesOf,
  PLAIN_COMMANDS,
  REPLICA_COMMANDS,
  SCRIPT_COMMANDS,
  SHARDED_COMMANDS,
} from '../acl.js'
import type { Check } from '../check.js'
import { note, ok, problem, warning } from '../finding.js'
import { isBefore, type Server } from '../server.js'
import type { DeploymentUnderTest } from '../target.js'
import { ms } from './connection.js'

/** Of whatever the doctor writes: it is gone even if the doctor is killed. */
export const TRIAL_TTL_MS = 10_000
const MESSAGE_MS = 2_000
const MESSAGES = 5
const RULE = 'paste what holdfast doctor --acl --user <user> --prefix <prefix of the names> prints'
/** What no program that takes locks needs. */
const TOO_MUCH = ['flushall', 'config set x y', 'acl setuser x', 'keys *']

export const lockChecks: readonly Check[] = [
  {
    id: 'trial-lock',
    group: 'Locks',
    title: 'A trial lock',
    why: 'It is what all of this is for: a lock of a random name is taken, looked at, and released.',
    isOnce: true,
    async run(server, deployment) {
      if (await isReplica(server)) return undefined
      const lock = deployment.client.getLock(deployment.trialName)
      const startedAt = performance.now()
      try {
        const hold = await lock.tryLock({ leaseTimeMs: TRIAL_TTL_MS })
        if (!hold) return problem('refused, though nobody can hold it', 'see who writes and deletes keys there')
        const took = performance.now() - startedAt
        if (!(await hold.isHeld()))
          return problem('taken, and not there a moment later', 'see what deletes keys: eviction, a proxy')
        await hold.unlock()
        if (deployment.warnings.length > 0) return note(`taken in ${ms(took)}; ${deployment.warnings.join('; ')}`)
        return ok(`taken in ${ms(took)}, and released`)
      } catch (error) {
        return problem(messageOf(error), remedyFor(error))
      }
    },
  },
  {
    id: 'pubsub',
    group: 'Locks',
    title: 'Messages',
    why: 'Who waits for a lock is woken by a message. Without it a waiter asks again every now and then, and gets it later.',
    isOnce: true,
    async run(_server, deployment) {
      const server = deployment.ownerOf(deployment.trialName)
      if (await isReplica(server)) return undefined
      const channel = lockChannel(deployment.trialName)
      const plain = await latencyOf(server, channel, ['publish', 'subscribe', 'message'], deployment)
      if (typeof plain !== 'number') return plain
      if (!deployment.isCluster) return ok(`arrive in ${ms(plain)}`)
      const { compatible } = await server.version()
      if (isBefore(compatible, 7)) return ok(`arrive in ${ms(plain)}, by plain channels; sharded ones are of Redis 7`)
      const sharded = await latencyOf(server, channel, ['spublish', 'ssubscribe', 'smessage'], deployment)
      if (typeof sharded !== 'number') return sharded
      return ok(`arrive in ${ms(plain)} by plain channels, and in ${ms(sharded)} by sharded ones`)
    },
  },
  {
    id: 'rights',
    group: 'Locks',
    title: 'Rights',
    why: 'Each script needs all of its commands and keys. One that is refused in the middle is not undone by Redis.',
    isOnce: true,
    async run(_server, deployment) {
      const server = deployment.ownerOf(deployment.trialName)
      if (await isReplica(server)) return undefined
      // Without INFO nobody knows the version; it is more likely a new one.
      const version = await server.version().catch(() => undefined)
      const way = version && isBefore(version.compatible, 7) ? 'try' : 'ask'
      const { commands, names, excess } = await refusedRights(server, deployment, way)
      if (commands.length + names.length === 0) {
        if (!excess) return ok('all that is needed, and not much more')
        return note(`this user may do all that is needed, and ${excess}`, `for a user of its own ${RULE}`)
      }
      const found = [
        ...(commands.length > 0 ? [`not allowed: ${commands.join(', ')}`] : []),
        ...asPatterns(names, deployment).map(([pattern, kinds]) => `no right to ${pattern}, for ${kinds}`),
      ].join('; ')
      const needed = [...PLAIN_COMMANDS, 'evalsha', 'eval']
      const isForAll =
        commands.some((command) => needed.includes(command)) || names.some(([, kinds]) => kinds === 'all locks')
      return isForAll ? problem(found, RULE) : warning(found, RULE)
    },
  },
]

async function isReplica(server: Server): Promise<boolean> {
  return (await server.infoField('role').catch(() => '')) === 'slave'
}

/** An error reply about rights, of commands or of scripts. */
export function isRefused(error: unknown): boolean {
  return /\bNOPERM\b/.test(messageOf(error))
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** For each error that a trial may end with what to do. */
const REMEDIES: readonly [error: RegExp, remedy: string][] = [
  [/\bNOPERM\b/, RULE],
  [/\bOOM\b/, 'CONFIG SET maxmemory with more, or fewer keys (see memory)'],
  [/\bMISCONF\b/, 'free the disk of Redis (see persistence)'],
  [/\bNOREPLICAS\b/, 'bring the replicas back, or CONFIG SET min-replicas-to-write with less (see min-replicas)'],
  [/\bREADONLY\b/, 'connect to the master (see role)'],
  [/\b(MOVED|CROSSSLOT)\b/, 'a configuration with clusterServersConfig (see role)'],
  [/\bCLUSTERDOWN\b/, 'redis-cli --cluster check (see cluster-state)'],
]

function remedyFor(error: unknown): string {
  if (error instanceof NotReplicatedError) return 'see that the replicas are connected and not behind (see wait)'
  const known = REMEDIES.find(([pattern]) => pattern.test(messageOf(error)))
  return known?.[1] ?? 'see that Redis runs EVALSHA and EVAL, and answers'
}

/** How long messages of a script take on one kind of channel, or what is wrong. */
async function latencyOf(
  server: Server,
  channel: string,
  [publish, subscribe, event]: [publish: string, subscribe: 'subscribe' | 'ssubscribe', event: string],
  { trialName }: DeploymentUnderTest,
) {
  const slowly = 'Waiters then ask again every 250 ms'
  const subscriber = server.redis.duplicate({ lazyConnect: true, retryStrategy: () => null, disconnectTimeout: 100 })
  subscriber.on('error', () => {})
  const heard = new Map<string, () => void>()
  subscriber.on(event, (_channel: string, message: string) => heard.get(message)?.())
  try {
    try {
      await within(MESSAGE_MS, subscriber.connect())
      await within(MESSAGE_MS, subscriber[subscribe](channel))
    } catch (error) {
      return warning(
        `${subscribe.toUpperCase()} fails: ${messageOf(error)}. ${slowly}`,
        isRefused(error) ? RULE : 'connect to Redis itself, not to a proxy',
      )
    }
    const times: number[] = []
    for (let number = 0; number < MESSAGES; number++) {
      const text = `doctor ${number}`
      const arrival = new Promise<void>((resolve) => heard.set(text, resolve))
      const startedAt = performance.now()
      const script = `return redis.pcall('${publish}', ARGV[1], ARGV[2])`
      try {
        await server.ask('EVAL', script, '1', trialName, channel, text)
      } catch (error) {
        if (!/NOPERM|can't|No permissions/i.test(messageOf(error))) throw error
        return warning(`${publish.toUpperCase()} is refused to scripts: ${messageOf(error)}. ${slowly}`, RULE)
      }
      try {
        await within(MESSAGE_MS, arrival)
      } catch {
        return warning(
          `published, and not heard within ${MESSAGE_MS} ms. ${slowly}`,
          'connect to Redis itself, not to a proxy that shares connections',
        )
      }
      times.push(performance.now() - startedAt)
    }
    return times.sort((one, other) => one - other)[MESSAGES >> 1] ?? 0
  } finally {
    subscriber.disconnect()
  }
}

interface Refused {
  /** The names of commands. */
  readonly commands: string[]
  readonly names: [name: string, kinds: string][]
  /** What this user may do beside that, and had better not. */
  readonly excess: string | undefined
}

/**
 * Redis 7 tells a script what its user may do. Before, each command is tried on keys that nobody else has. No key is
 * declared: EVAL itself would be refused. Reply: for each command 1 (allowed), 0, or ? (it could not be found out).
 */
const RIGHTS = `
local function isAllowed(words)
  if ARGV[1] == 'ask' then
    local isKnown, allowed = pcall(redis.acl_check_cmd, unpack(words))
    return not isKnown and '?' or allowed and '1' or '0'
  end
  local reply = redis.pcall(unpack(words))
  local message = type(reply) == 'table' and reply.err or ''
  local isRefused = string.find(message, 'NOPERM') or string.find(message, "can't") or string.find(message, 'permission')
  return isRefused and '0' or '1'
end
local answers = ''
for _, words in ipairs(cjson.decode(ARGV[2])) do
  answers = answers .. isAllowed(words)
end
if ARGV[1] == 'try' then
  for _, key in ipairs(cjson.decode(ARGV[3])) do
    redis.pcall('del', key)
  end
end
return answers`

/**
 * Everything that this user lacks.
 * @param way  whether to ask Redis (7 and later) or to try
 */
export async function refusedRights(
  server: Server,
  deployment: Pick<DeploymentUnderTest, 'prefix' | 'trialName' | 'isCluster'>,
  way: 'ask' | 'try',
): Promise<Refused> {
  const { isCluster } = deployment
  const { keys, channels } = trialNamesOf(deployment)
  const ask = async (commands: readonly string[][]): Promise<boolean[]> => {
    const args = [way, JSON.stringify(commands), JSON.stringify([...keys.keys()])]
    const answers = await server.askText('EVAL', RIGHTS, '0', ...args)
    return commands.map((_, at) => answers[at] === '0')
  }
  const scripted = await refusedOf(ask, Object.entries(SCRIPT_COMMANDS), [...keys])
  const onChannels =
    way === 'try' ? ['publish'] : ['publish', 'subscribe', ...(isCluster ? ['spublish', 'ssubscribe'] : [])]
  const spoken = await refusedOf(
    ask,
    onChannels.map((command) => [command, command.endsWith('publish') ? 'x' : '']),
    [...channels],
  )
  const others = [
    ...CLIENT_COMMANDS,
    ...REPLICA_COMMANDS,
    ...(isCluster ? [...SHARDED_COMMANDS, ...CLUSTER_COMMANDS] : []),
  ]
    .map((line) => line.split(' '))
    .filter(([name = '']) => way === 'ask' && !onChannels.includes(name))
  const refusedOthers = await ask(others)
  return {
    commands: [
      ...scripted.commands,
      ...spoken.commands,
      ...others.flatMap(([name = '', sub = ''], at) =>
        refusedOthers[at] ? [name === 'cluster' ? `${name} ${sub}` : name] : [],
      ),
    ],
    names: [...scripted.names, ...spoken.names],
    excess: way === 'ask' ? await excessOf(ask, deployment) : undefined,
  }
}

/** The keys and channels of two names: as most are, and with a brace, which is spelled otherwise. */
function trialNamesOf({ prefix, trialName }: Pick<DeploymentUnderTest, 'prefix' | 'trialName'>) {
  const usual = namesOf(trialName)
  const other = namesOf(`${prefix}{${trialName.slice(prefix.length)}}`)
  const all = (one: Map<string, string>, more: Map<string, string>): Map<string, string> =>
    new Map([...[...more].map(([name, kinds]) => [name, `${kinds} with braces in their names`] as const), ...one])
  return { keys: all(usual.keys, other.keys), channels: all(usual.channels, other.channels) }
}

async function excessOf(
  ask: (commands: readonly string[][]) => Promise<boolean[]>,
  { prefix, trialName }: Pick<DeploymentUnderTest, 'prefix' | 'trialName'>,
): Promise<string | undefined> {
  const refused = async (lines: readonly string[]): Promise<boolean[]> =>
    await ask(lines.map((line) => line.split(' ')))
  if (!(await refused(TOO_MUCH)).includes(true)) return 'much more (FLUSHALL, CONFIG SET …)'
  if (prefix === '') return undefined
  const foreign = trialName.slice(prefix.length)
  // What harms the locks of others: their fencing tokens, and those who wait for them.
  const harm = [
    `set ${fencingTokenKey(foreign)} 1`,
    `lpop ${turnQueueKey(foreign)}`,
    `publish ${lockChannel(foreign)} 0`,
  ]
  return (await refused(harm)).includes(false) ? `change locks whose names do not begin with ${prefix}` : undefined
}

/** As the words of the rule that are missing. */
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

/** A command is refused if it is so for every name; then a name, if any other command is refused for it. */
async function refusedOf(
  ask: (commands: readonly string[][]) => Promise<boolean[]>,
  commands: readonly (readonly [command: string, args: string])[],
  names: [name: string, kinds: string][],
): Promise<{ commands: string[]; names: [name: string, kinds: string][] }> {
  const answers = await ask(
    commands.flatMap(([command, args]) => names.map(([name]) => [command, name, ...args.split(' ').filter(Boolean)])),
  )
  const refused = commands.map(([command], row) => ({
    command,
    names: names.filter((_, column) => answers[row * names.length + column]),
  }))
  const isEvery = (those: { names: unknown[] }): boolean => those.names.length === names.length
  // Nothing at all: then it is the names that do not fit.
  if (refused.every(isEvery)) return { commands: [], names }
  return {
    commands: refused.filter(isEvery).map(({ command }) => command),
    names: names.filter((name) => refused.some((those) => !isEvery(those) && those.names.includes(name))),
  }
}
