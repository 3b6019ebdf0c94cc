/** What a look costs Redis when there are ten thousand clients with a lock each, alone and among a million keys. */
import type { LockInfo } from '../../../src/index.js'
import { REPLY_PREFIX } from '../../../src/wire/keys.js'
import { type RedisServer, startRedis } from '../../support/servers/redis-server.js'
import { monotonicMs } from '../beliefs.js'
import { holdfast } from './command.js'
import { CLIENTS, lockAt, plantLocks, plantOtherKeys, startCrowd } from './crowd.js'

/** What one look costs: the least of several rounds, since a busy machine suspends Redis in the middle of any command. */
export interface Cost {
  readonly look: string
  readonly among: 'its locks' | 'a million keys'
  /** By the wall, from the start of the program to its end. */
  readonly wallMs: number
  /** Of all commands together. Those that a script calls count twice if others send them too. */
  readonly redisMs: number
  /** The processor time of the server's thread, reading and writing included. */
  readonly cpuMs: number
  /** The longest single command, each as quick as in its best round. 0: none took half a millisecond. */
  readonly longestMs: number
  readonly longest: string
  readonly commands: number
  /** Locks listed, and clients that were silent. */
  readonly locks: number
  readonly silent: number
}

export interface Scale {
  readonly costs: readonly Cost[]
  readonly found: readonly string[]
}

const LEAST_ROUNDS = 4
const MOST_ROUNDS = 15
/** No more rounds begin after this, ms. */
const LOOK_MS = 40_000
const LONGEST_MS = 5
const WHO_MS = 10
/** Only without other keys: SCAN alone takes seconds for a million. */
const LIST_MS = 1_000
const TIMEOUT = ['--timeout', '5s']
const LOGGED_MS = 0.5
/** So much of a command tells it apart from others. */
const NAMED_BY = 85
/** Never sent by themselves. */
const IN_SCRIPTS = /^(type|hlen|hget|hgetall|hexists|lrange|zrange|exists|time)$/
/** Of this program. */
const OURS = /^(config|info|slowlog)\b/

export async function measureScale(): Promise<Scale> {
  const server = await startRedis({ args: ['--maxclients', String(CLIENTS + 1_000), '--slowlog-max-len', '10000'] })
  await server.admin.config('SET', 'slowlog-log-slower-than', LOGGED_MS * 1_000)
  await plantLocks(server)
  await startCrowd(server)
  const [who, ls] = [['who', lockAt(4_711)], ['ls']]
  const costs: Cost[] = []
  for (const look of [who, ls]) costs.push(await costOf(server, look, 'its locks'))
  await plantOtherKeys(server)
  for (const look of [who, ls, ['ls', `${lockAt(47).slice(0, -2)}*`], ['ls', '--contended'], ['deadlocks']])
    costs.push(await costOf(server, look, 'a million keys'))
  const found = costs.flatMap(({ look, among, longest, redisMs }) => {
    // Several looks send the same commands.
    const longestMs = Math.min(...costs.filter((cost) => cost.longest === longest).map((cost) => cost.longestMs))
    return [
      ...(longestMs > LONGEST_MS ? [`${look}: ${longest} took ${longestMs} ms`] : []),
      ...(look.startsWith('who') && redisMs > WHO_MS ? [`${look}: took Redis ${redisMs} ms`] : []),
      ...(look === 'ls' && among === 'its locks' && redisMs > LIST_MS ? [`${look}: took Redis ${redisMs} ms`] : []),
    ]
  })
  const forbidden = await forbiddenIn(server)
  await server.stop()
  return { costs, found: [...found, ...forbidden] }
}

async function costOf(server: RedisServer, look: readonly string[], among: Cost['among']): Promise<Cost> {
  const rounds: Round[] = []
  const endsAt = monotonicMs() + LOOK_MS
  const hasTime = (): boolean => rounds.length < LEAST_ROUNDS || monotonicMs() < endsAt
  while (rounds.length < MOST_ROUNDS && hasTime()) rounds.push(await lookOnce(server, look))
  const [first] = rounds
  if (!first) throw new Error('there are rounds')
  const least = (of: (round: Round) => number): number => Math.min(...rounds.map(of))
  const commands = [...new Set(rounds.flatMap(({ slow }) => [...slow.keys()]))]
  const longest = commands
    .map((command) => ({ command, ms: least(({ slow }) => slow.get(command) ?? 0) }))
    .reduce((one, other) => (other.ms > one.ms ? other : one), { command: '', ms: 0 })
  return {
    look: look.join(' '),
    among,
    wallMs: least(({ wallMs }) => wallMs),
    redisMs: least(({ redisMs }) => redisMs),
    cpuMs: least(({ cpuMs }) => cpuMs),
    longestMs: longest.ms,
    longest: longest.command,
    commands: first.commands,
    locks: first.locks,
    silent: least(({ silent }) => silent),
  }
}

type Round = Omit<Cost, 'look' | 'among' | 'longestMs' | 'longest'> & {
  /** Commands that took more than `LOGGED_MS`, ms. */
  readonly slow: ReadonlyMap<string, number>
}

type Summary = { readonly summary: { readonly clients: { readonly silent: number } } }

async function lookOnce({ admin, url }: RedisServer, look: readonly string[]): Promise<Round> {
  const place = { name: 'single', url, file: undefined } as const
  const seen = await statsOf(admin)
  await admin.call('SLOWLOG', 'RESET')
  const cpuBefore = await cpuMsOf(admin)
  const { lines, from, to } = await holdfast<LockInfo | Summary>(place, ...look, ...TIMEOUT)
  const cpuMs = (await cpuMsOf(admin)) - cpuBefore
  const stats = await statsOf(admin)
  let [redisMs, commands] = [0, 0]
  for (const [name, { calls, usec }] of stats) {
    if (OURS.test(name) || IN_SCRIPTS.test(name)) continue
    redisMs += (usec - (seen.get(name)?.usec ?? 0)) / 1_000
    commands += calls - (seen.get(name)?.calls ?? 0)
  }
  const summary = lines.find((line): line is Summary => 'summary' in line)
  return {
    slow: await slowIn(admin),
    wallMs: Math.round(to - from),
    redisMs: rounded(redisMs),
    cpuMs: rounded(cpuMs),
    commands,
    locks: lines.filter((line) => 'name' in line).length,
    silent: summary?.summary.clients.silent ?? 0,
  }
}

type Admin = RedisServer['admin']

async function statsOf(admin: Admin): Promise<Map<string, { calls: number; usec: number }>> {
  const text = await admin.info('commandstats')
  return new Map(
    [...text.matchAll(/^cmdstat_(\S+?):calls=(\d+),usec=(\d+)/gm)].map(([, name = '', calls, usec]) => [
      name,
      { calls: Number(calls), usec: Number(usec) },
    ]),
  )
}

async function cpuMsOf(admin: Admin): Promise<number> {
  const text = await admin.info('cpu')
  const [user, system] = ['user', 'sys'].map(
    (part) => new RegExp(`used_cpu_${part}_main_thread:([\\d.]+)`).exec(text)?.[1],
  )
  return (Number(user) + Number(system)) * 1_000
}

/** By what is the same in each round: not by the channel of the replies, nor by what they say. */
async function slowIn(admin: Admin): Promise<Map<string, number>> {
  const entries = (await admin.call('SLOWLOG', 'GET', '10000')) as [number, number, number, string[]][]
  const slow = new Map<string, number>()
  for (const [, , usec, words] of entries) {
    const named = words.slice(0, 4).map((word) => (word.startsWith(REPLY_PREFIX) ? REPLY_PREFIX : word))
    const command = named.join(' ').slice(0, NAMED_BY)
    if (!OURS.test(command.toLowerCase())) slow.set(command, Math.max(slow.get(command) ?? 0, usec / 1_000))
  }
  return slow
}

/** What must not be sent to a server with so many keys and clients. */
async function forbiddenIn({ admin }: RedisServer): Promise<string[]> {
  const sent = [...(await statsOf(admin)).keys()]
  return sent.filter((name) => /^(keys|client\|list|monitor)$/.test(name)).map((name) => `${name} was sent`)
}

function rounded(ms: number): number {
  return Math.round(ms * 10) / 10
}
