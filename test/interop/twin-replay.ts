// Two scripts on two equal databases of one Redis: what they reply, store and publish.
import { isDeepStrictEqual } from 'node:util'
import { Dice } from '../support/dice.js'
import { DUMP, type Dumped, parsed } from '../support/dumped.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { waitUntil } from '../support/wait-until.js'

export interface Script {
  readonly lua: string
  /** What KEYS and ARGV are, such as `lock channel | holder lease`: words of `valuesFor`; others stand for themselves. */
  readonly slots: string
}

/** Two scripts that are to do the same. */
export interface Pair {
  readonly twin: Script
  readonly redisson: Script
  /** What Redisson's script replies where the twin's replies this. */
  readonly replyOf: (twinReply: unknown) => unknown
}

type Command = readonly [name: string, ...words: string[]]
interface Step {
  /** `MAKERS` calls on Redisson's database, then this state is copied to the twin's. */
  readonly makers: readonly Command[]
  readonly twin: Command
  readonly redisson: Command
}

const STEPS = 300
const MAKERS = 3
/** Before each of so many all is deleted. */
const ROUND = 12
const MARK = 'end of a call'
/** Changes a random key if it is of that type: ARGV its number, the command, the arguments. */
const MEDDLE = `
local keys = redis.call('keys', '*')
table.sort(keys)
if #keys > 0 then
  redis.pcall(ARGV[2], keys[ARGV[1] % #keys + 1], unpack(ARGV, 3))
end`
const COPY = `
redis.call('select', 0)
redis.call('flushdb')
redis.call('select', 1)
for _, key in ipairs(redis.call('keys', '*')) do
  redis.call('copy', key, key, 'db', 0)
end`

/**
 * Calls both scripts in random states, and throws at the first difference.
 * @param makers  pairs whose scripts of Redisson's make the states
 * @returns how much was compared
 */
export async function compare(pair: Pair, makers: readonly Pair[], seed: number): Promise<string> {
  const steps = randomSteps(pair, makers, new Dice(seed))
  await using server = await startRedis()
  const { replies, messages } = await sent(server, steps)
  let changes = 0
  for (const [index, step] of steps.entries()) {
    const [dump, , twinReply, , twinDump, , reply, , lastDump] = replies.slice(index * (MAKERS + 11) + MAKERS + 3)
    const [, twinMessages, ownMessages] = messages.slice(3 * index)
    const [before, between, after] = [dump, twinDump, lastDump].map(stateOf) as [State, State, State]
    const twin = { reply: pair.replyOf(twinReply), keys: between.keys, messages: twinMessages }
    const redisson = { reply, keys: after.keys, messages: ownMessages }
    if (!alike(twin, redisson, 1 + (after.at - before.at) / 1000)) {
      const seen = Object.entries({ before: before.keys, twin, redisson }).map(
        ([name, what]) => `\n${name}: ${JSON.stringify(what)}`,
      )
      throw new Error(`step ${index} of seed ${seed}: EVAL ${step.redisson.slice(2).join(' ')}${seen.join('')}`)
    }
    if (!isDeepStrictEqual(before.keys, after.keys)) changes++
  }
  if (changes === 0) throw new Error('no call changed anything')
  return `${changes} of ${STEPS} calls changed something`
}

/** The replies: for each step those of its makers, copy, dump, and call with dump on each side. */
async function sent(
  { admin }: RedisServer,
  steps: readonly Step[],
): Promise<{ replies: unknown[]; messages: string[][] }> {
  const messages: string[][] = [[]]
  const subscriber = admin.duplicate()
  subscriber.on('pmessage', (_pattern: string, channel: string, message: string) => {
    if (channel === MARK) messages.push([])
    else messages.at(-1)?.push(`${channel} ${message}`)
  })
  try {
    await subscriber.psubscribe('*')
    const pipeline = admin.pipeline().select(1)
    for (const { makers, twin, redisson } of steps) {
      for (const command of makers) pipeline.call(...command)
      pipeline.eval(COPY, 0)
      pipeline.publish(MARK, '').callBuffer('EVAL', DUMP, 0)
      for (const [db, command] of [twin, redisson].entries())
        pipeline
          .select(db)
          .call(...command)
          .publish(MARK, '')
          .callBuffer('EVAL', DUMP, 0)
    }
    const replies = ((await pipeline.exec()) ?? []).map(([error, reply]) => {
      if (error) throw error
      return reply
    })
    await waitUntil(() => messages.length > 3 * steps.length, { timeoutMs: 30_000, message: 'all messages arrive' })
    return { replies, messages }
  } finally {
    subscriber.disconnect()
  }
}

function randomSteps({ twin, redisson }: Pair, makers: readonly Pair[], dice: Dice): Step[] {
  const maker = (): Command =>
    dice.chance(0.15) ? meddling(dice) : evalOf(dice.pick(makers).redisson, valuesFor(dice))
  return Array.from({ length: STEPS }, (_, index) => {
    const before = Array.from({ length: MAKERS }, maker)
    if (index % ROUND === 0) before[0] = ['FLUSHALL']
    const values = valuesFor(dice)
    return { makers: before, twin: evalOf(twin, values), redisson: evalOf(redisson, values) }
  })
}

function meddling(dice: Dice): Command {
  const change = dice.pick([['DEL'], ['PERSIST'], ['PEXPIRE', String(leaseOf(dice))], ['HDEL', 'mode']])
  return ['EVAL', MEDDLE, '0', String(dice.between(0, 99)), ...change]
}

function evalOf({ lua, slots }: Script, values: Values): Command {
  const [keys = [], args = []] = slots
    .split(' | ')
    .map((words) => words.split(' ').flatMap((word) => values[word] ?? word))
  return ['EVAL', lua, String(keys.length), ...[...keys, ...args].map(String)]
}

type Values = Readonly<Record<string, string | number | readonly string[]>>

function valuesFor(dice: Dice): Values {
  const holder = dice.pick(['a:1', 'a:1', 'a:2', 'b:1'])
  const lease = leaseOf(dice)
  const now = 1_800_000_000_000 + 10_000 * dice.between(0, 20)
  const never = '922337203685477'
  const ids = dice.some(['id1', 'id2', 'id3', 'id4'])
  return {
    holder,
    writer: `${holder}:write`,
    hold: `{rw}:${holder}:rwlock_timeout`,
    lease,
    wait: 10_000 * dice.between(1, 30),
    now,
    never,
    expiry: dice.chance(0.2) ? never : now + lease,
    ids,
    id: ids[0] as string,
    permits: ids.length,
    fields: dice.some(['field1', 'field2', 'field3']),
    latch: `latch:${dice.between(1, 20)}`,
    latchMs: 18_000,
  }
}

/** So long that none ends meanwhile. As all times, one of few, so that some are equal. */
function leaseOf(dice: Dice): number {
  return 10_000 * dice.between(2, 9)
}

type State = ReturnType<typeof stateOf>
function stateOf(dump: unknown): { at: number; keys: Dumped[] } {
  const { at, keys } = parsed(dump as unknown[])
  return { at, keys: keys.map(sorted).sort((one, other) => (one.key < other.key ? -1 : 1)) }
}

/** With the fields of a hash, or the members of a sorted set, in one order. */
function sorted(dumped: Dumped): Dumped {
  const { type, words } = dumped
  if (type !== 'hash' && type !== 'zset') return dumped
  const pairs = words.flatMap((word, index) => (index % 2 === 0 ? [[word, words[index + 1] as string]] : []))
  return { ...dumped, words: pairs.sort(([one = ''], [other = '']) => (one < other ? -1 : 1)).flat() }
}

/** Whether two values are equal, but for times (numbers above 1000) that are so many ms apart. */
function alike(one: unknown, other: unknown, slackMs: number): boolean {
  if (one === other) return true
  if (typeof one !== typeof other) return false
  if (typeof one === 'object' && one && other) {
    const [mine, theirs] = [Object.values(one), Object.values(other)]
    return mine.length === theirs.length && mine.every((value, index) => alike(value, theirs[index], slackMs))
  }
  const [mine, theirs] = [Number(one), Number(other)]
  return mine > 1_000 && theirs > 1_000 && Math.abs(mine - theirs) <= slackMs
}
