// Says who holds the locks that were found, and whether they end.
import { toArray } from '../../delivery/replies.js'
import { doubtText } from '../../fleet/doubts.js'
import { type HolderInfo, isEndless, type LockInfo, type WaiterInfo } from '../../fleet/lock-info.js'
import { processOf } from '../../locks/reporting/who-holds.js'
import { durationOf } from '../../util/duration-text.js'
import { forRedisCli, forShell } from '../../util/quoting.js'
import { word } from '../../util/visible.js'
import { fairChannelPrefix, INBOX_PREFIX } from '../../wire/keys.js'
import type { Check } from '../check.js'
import { type Finding, note, ok, problem, warning } from '../finding.js'
import { type LockSample, SAMPLE_MS } from '../lock-sample.js'
import type { DeploymentUnderTest } from '../target.js'

/** How many locks a message names. */
const MAX_NAMED = 3
/** Maximum length of a foreign text in a message. */
const MAX_TEXT = 80
const LONG_HOLD_MS = 3_600_000
/** How many locks are looked at again. */
const MAX_CONFIRMED = 20

export const heldLockChecks: readonly Check[] = [
  {
    id: 'lock-expiry',
    group: 'Locks',
    title: 'Locks without end',
    why: 'A lock is a key with a TTL. Without one it is never free again if its holder is gone.',
    isOnce: true,
    run: amongLocks((sample) => {
      const endless = sample.locks.filter(isEndless)
      const [first] = endless
      if (!first) return ok(`none of ${scopeOf(sample)}`)
      const named = endless.map(({ name, holders }) => `${shown(name)} (${shown(holders[0]?.holder ?? '')})`)
      return problem(
        `without a TTL: ${listed(named)}, of ${scopeOf(sample)}`,
        `PEXPIRE ${forRedisCli(first.name)} 30000: a live holder renews it; otherwise it expires in 30 s`,
      )
    }),
  },
  {
    id: 'oldest-holds',
    group: 'Locks',
    title: 'Oldest holds',
    why: 'A hold is renewed for as long as its process lives. One that was forgotten keeps everyone else out.',
    isOnce: true,
    run: amongLocks((sample) => {
      const holds = sample.locks.flatMap(({ name, holders }) => holders.map((holder) => ({ name, holder })))
      const known = holds.flatMap(({ name, holder }) =>
        holder.heldMs === undefined ? [] : [{ name, holder, heldMs: holder.heldMs }],
      )
      const [oldest] = known.sort((one, other) => other.heldMs - one.heldMs)
      const unknown = holds.length - known.length
      const rest = `${unknown > 0 ? `; of ${unknown} the age is not known` : ''}; ${scopeOf(sample)}`
      if (!oldest) return ok(holds.length === 0 ? `none held of ${scopeOf(sample)}` : rest.slice(2))
      const named = known.map(
        ({ name, holder, heldMs }) => `${shown(name)} for ${durationOf(heldMs)} ${byWhom(holder)}`,
      )
      const message = listed(named) + rest
      return oldest.heldMs < LONG_HOLD_MS ? ok(message) : note(message, `holdfast who ${forShell(oldest.name)}`)
    }),
  },
  {
    id: 'dead-waiters',
    group: 'Locks',
    title: 'Waiters of dead clients',
    why: 'A client that dies while it waits leaves its place in the queue behind, which delays those after it.',
    isOnce: true,
    run: amongLocks(async (sample, deployment) => {
      // A user that may not list the inboxes cannot tell the dead from the living.
      await deployment.servers[0].command('PUBSUB', 'CHANNELS', INBOX_PREFIX)
      const dead = await deadWaiters(sample.locks, deployment)
      if (dead.length === 0) return ok(`none at ${scopeOf(sample)}`)
      const count = dead.reduce((sum, { waiters }) => sum + waiters.length, 0)
      const named = dead.map(({ name, waiters: [first] }) => `${shown(name)} (${first ? whoOf(first) : ''})`)
      const message = `${count} that nobody listens for: ${listed(named)}, at ${scopeOf(sample)}`
      const fix = 'check whether these processes still run, and may subscribe. Dead ones lose their place at their turn'
      // In a turn queue, a release skips them at once.
      const isFair = dead.some(({ waiters }) => waiters.some(({ holder }) => holder !== undefined))
      return isFair ? warning(message, fix) : note(message, fix)
    }),
  },
]

function amongLocks(
  run: (sample: LockSample, deployment: DeploymentUnderTest) => Finding | Promise<Finding>,
): Check['run'] {
  return async (server, deployment) => {
    if (await server.isReplica().catch(() => false)) return undefined
    const sample = await deployment.locks()
    const hidden = hiddenOf(sample)
    if (sample.locks.length > 0) return await run(sample, deployment)
    if (hidden) return note(`no locks that can be seen${hidden}`, 'run the doctor as a user that may read all locks')
    return ok(sample.isCut ? `no locks found in ${SAMPLE_MS} ms` : 'no locks')
  }
}

/** Of the locks that this user may not read; '': there are none. */
function hiddenOf({ doubts }: LockSample): string {
  return doubts.flatMap((doubt) => (doubt.about === 'hidden-locks' ? `; ${doubtText(doubt, shown)}` : [])).join('')
}

interface DeadWaiters {
  readonly name: string
  readonly waiters: readonly WaiterInfo[]
}

/** Checks twice: a client that waits for the first time joins the queue a moment before it listens. */
async function deadWaiters(locks: readonly LockInfo[], deployment: DeploymentUnderTest): Promise<DeadWaiters[]> {
  const first = await deadIn(locks, deployment)
  const names = first.slice(0, MAX_CONFIRMED).map(({ name }) => name)
  const again = await Promise.all(names.map(async (name) => await deployment.client.fleet.inspect(name)))
  const second = await deadIn(again, deployment)
  return second.map(({ name, waiters }) => {
    const before = first.find((other) => other.name === name)?.waiters.length ?? 0
    return { name, waiters: waiters.slice(0, before) }
  })
}

async function deadIn(locks: readonly LockInfo[], deployment: DeploymentUnderTest): Promise<DeadWaiters[]> {
  const suspects = locks
    .map(({ name, waiters }) => ({ name, waiters: waiters.filter(isSuspect) }))
    .filter(({ waiters }) => waiters.length > 0)
  const channels = suspects.flatMap(({ name, waiters }) => waiters.flatMap((waiter) => fairChannel(name, waiter) ?? []))
  const listened = await channelsWithListeners(channels, deployment)
  return suspects
    .map(({ name, waiters }) => ({
      name,
      waiters: waiters.filter((waiter) => !listened.has(fairChannel(name, waiter) ?? '')),
    }))
    .filter(({ waiters }) => waiters.length > 0)
}

/** In a queue in Redis, and without a reply. A ticket is of no use to a client that does not listen on its inbox. */
function isSuspect({ position, holder, status }: WaiterInfo): boolean {
  return position !== undefined && (status === 'disconnected' || (status === 'unlisted' && holder !== undefined))
}

/** On which a waiter of a fair lock listens, Redisson's too. */
function fairChannel(name: string, { holder }: WaiterInfo): string | undefined {
  return holder === undefined ? undefined : fairChannelPrefix(name) + holder
}

/** The given channels that have a listener. */
async function channelsWithListeners(
  channels: readonly string[],
  deployment: DeploymentUnderTest,
): Promise<Set<string>> {
  if (channels.length === 0) return new Set()
  const kinds = deployment.isCluster ? ['NUMSUB', 'SHARDNUMSUB'] : ['NUMSUB']
  const replies = await Promise.all(
    deployment.servers.flatMap((server) =>
      kinds.map(async (kind) => {
        const reply = server.command('PUBSUB', kind, ...channels)
        return toArray(await (kind === 'NUMSUB' ? reply : reply.catch(() => []))).map(String) // sharded from Redis 7
      }),
    ),
  )
  return new Set(replies.flatMap((words) => words.filter((_, at) => at % 2 === 0 && Number(words[at + 1]) > 0)))
}

function scopeOf(sample: LockSample): string {
  const { locks, isCut } = sample
  const count = `${locks.length} ${locks.length === 1 ? 'lock' : 'locks'}`
  return (isCut ? `the ${count} found in ${SAMPLE_MS} ms; there may be more` : count) + hiddenOf(sample)
}

function byWhom(holder: HolderInfo): string {
  return `by ${whoOf(holder)}${holder.label === undefined ? '' : ` (${shown(holder.label)})`}`
}

function whoOf({ client, holder = 'a client that does not describe itself' }: HolderInfo | WaiterInfo): string {
  return shown(client ? processOf({ client }) : holder)
}

function listed(texts: readonly string[]): string {
  const more = texts.length - MAX_NAMED
  return `${texts.slice(0, MAX_NAMED).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

function shown(text: string): string {
  return word(text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text)
}
