import assert from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import type { Redis } from 'ioredis'
import { permitInspect, SCRIPTS } from '../../src/lua/generated.js'
import type { ScriptCall } from '../../src/lua/script.js'
import { MemoryRedis } from '../../src/testing/memory-redis.js'
import { permitLeases, semaphoreChannel } from '../../src/wire/keys.js'
import { Dice } from './dice.js'
import { DUMP, type Dumped, parsed, toUs } from './dumped.js'
import { ALL_CHANNELS, RandomCalls, randomCommand } from './random-calls.js'
import { formsOf } from './script-names.js'
import type { RedisServer } from './servers/redis-server.js'
import { sleep, waitUntil } from './wait-until.js'

/** What a command replied, and what there was after it. */
interface Outcome {
  readonly reply: unknown
  readonly keys: readonly Dumped[]
}

const MARKER = 'differential:marker'
/** Messages are compared after so many steps. */
const CHAPTER = 500

export interface Result {
  /** Calls of scripts that were compared. */
  readonly calls: number
  /** How often each script was called. */
  readonly byScript: ReadonlyMap<string, number>
  /** Calls in which a millisecond ended, and which differed: it cannot be said which of the two instants counts. */
  readonly undecided: number
  readonly messages: number
}

/** Sends the same random calls to a real Redis and to the one in memory. */
export class Differential {
  readonly #server: RedisServer
  readonly #seed: number
  readonly #dice: Dice
  readonly #memory: MemoryRedis
  readonly #calls: RandomCalls
  readonly #links: Link[] = []
  /** The time in memory, epoch µs. */
  #nowUs = 0
  #undecided = 0
  #isChapterUndecided = false
  #dumpSha1 = ''

  constructor(server: RedisServer, seed: number) {
    this.#server = server
    this.#seed = seed
    this.#dice = new Dice(seed)
    this.#memory = new MemoryRedis({ now: () => this.#nowUs / 1000 })
    this.#calls = new RandomCalls(this.#dice, {
      now: Date.now(),
      get: (key) => this.#memory.keyspace.read(key, 'string'),
    })
  }

  /** @throws {assert.AssertionError} with the seed and the step of the first difference */
  async run(calls: number): Promise<Result> {
    const { admin } = this.#server
    const byScript = new Map<string, number>()
    let messages = 0
    await admin.flushall()
    for (const directive of ['hash-max-listpack-entries', 'hash-max-listpack-value']) {
      await admin.config('SET', directive, '4096') // then a hash keeps the order of its fields
    }
    for (const script of SCRIPTS) {
      await Promise.all(formsOf(script).map((form) => admin.script('LOAD', form.text)))
    }
    this.#dumpSha1 = String(await admin.script('LOAD', DUMP))
    try {
      for (let index = 0; index < 2; index++) this.#links.push(await Link.open(admin, this.#memory, this.#dice))
      for (let step = 0; step < calls; step++) {
        const call = this.#calls.next()
        byScript.set(call.script.name, (byScript.get(call.script.name) ?? 0) + 1)
        await this.#meddle(step)
        await this.#compare(step, commandOf(call), call.script.name)
        if (step % CHAPTER === CHAPTER - 1 || step === calls - 1) messages += await this.#compareMessages(step)
      }
    } finally {
      for (const link of this.#links) link.close()
    }
    return { calls, byScript, undecided: this.#undecided, messages }
  }

  /** What happens beside the scripts. */
  async #meddle(step: number): Promise<void> {
    const dice = this.#dice
    if (dice.chance(0.06)) await this.#compare(step, randomCommand(dice), 'a command')
    if (dice.chance(0.02)) await dice.pick(this.#links).toggle(dice)
    if (dice.chance(0.02)) await sleep(dice.between(1, 4))
    if (dice.chance(0.005)) await this.#meetDeadline(step)
  }

  /** A call in the very millisecond in which a permit's lease ends, which chance alone rarely meets. */
  async #meetDeadline(step: number): Promise<void> {
    const name = `permits:${this.#dice.between(1, 2)}`
    const endsAt = Date.now() + 2
    await this.#compare(step, ['ZADD', permitLeases(name), String(endsAt), 'x'], 'a command')
    while (Date.now() < endsAt); // a timer would be late
    const inspect = permitInspect(name, permitLeases(name), semaphoreChannel(name), [])
    await this.#compare(step, commandOf(inspect), inspect.script.name)
  }

  async #compare(step: number, command: readonly string[], title: string): Promise<void> {
    const { admin } = this.#server
    const starting = admin.call('TIME') as Promise<[string, string]>
    const replying = replyOf(() => admin.call(command[0] as string, ...command.slice(1)))
    const ending = admin.call('TIME') as Promise<[string, string]>
    const dumping = admin.callBuffer('EVALSHA', this.#dumpSha1, '0') as Promise<unknown[]>
    const [startUs, endUs] = [toUs(await starting), toUs(await ending)]
    const reply = await replying
    const { at, keys } = parsed(await dumping)

    const before = dump(this.#memory)
    const isOneInstant = Math.floor(startUs / 1000) === Math.floor(endUs / 1000)
    const theirs = { reply, keys: normal(keys, at) }
    const received = this.#links.map((link) => link.received)
    /** What was published in memory, at each instant that leads to the same outcome. */
    const published: (readonly string[])[][] = []
    for (const instant of isOneInstant ? [startUs] : [startUs, endUs]) {
      if (instant !== startUs) this.#restore(before)
      const ours = await this.#inMemory(command, instant, at)
      const messages = this.#links.map((link, index) => link.takeBack(received[index] as number))
      // Where microseconds count, Redis is right.
      if (alike(theirs, ours, endUs - startUs + 1)) published.push(messages)
      else if (isOneInstant) this.#fail(`step ${step}, ${title}: ${command.slice(2).join(' ')}`, before, theirs, ours)
    }
    const [some = [], others = some] = published
    for (const [index, link] of this.#links.entries()) link.receive(some[index] ?? [])
    if (published.length === 0) this.#undecided++
    // A key that ended meanwhile need not leave a trace but in messages.
    if (published.length === 0 || !isDeepStrictEqual(some, others)) this.#isChapterUndecided = true
    this.#restore(keys)
  }

  async #inMemory(command: readonly string[], instantUs: number, dumpedUs: number): Promise<Outcome> {
    this.#nowUs = instantUs
    const reply = await replyOf(() => this.#memory.execute(command))
    this.#nowUs = dumpedUs
    return { reply, keys: normal(dump(this.#memory), dumpedUs) }
  }

  #fail(where: string, before: readonly Dumped[], theirs: Outcome, ours: Outcome): never {
    const find = (keys: readonly Dumped[], key: string): Dumped | undefined => keys.find((other) => other.key === key)
    const isSame = ({ key }: Dumped): boolean => isDeepStrictEqual(find(theirs.keys, key), find(ours.keys, key))
    const differing = ({ reply, keys }: Outcome): Outcome => ({ reply, keys: keys.filter((one) => !isSame(one)) })
    const touched = before.filter(({ key }) => where.includes(key))
    const message = `seed ${this.#seed}, ${where}\nbefore: ${JSON.stringify(touched)}`
    assert.deepEqual(differing(ours), differing(theirs), message)
    assert.fail(message)
  }

  /** Makes the keys in memory those of Redis. */
  #restore(keys: readonly Dumped[]): void {
    const { keyspace } = this.#memory
    this.#nowUs = 0 // so that no deadline is in the past
    keyspace.tick()
    keyspace.clear()
    for (const { key, type, expiresAt, words } of keys) {
      if (type === 'string') keyspace.put(key, words[0] as string, undefined)
      else if (type === 'hash') keyspace.execute('HSET', [key, ...words])
      else if (type === 'list') keyspace.execute('RPUSH', [key, ...words])
      else
        for (let at = 0; at < words.length; at += 2)
          keyspace.execute('ZADD', [key, words[at + 1] as string, words[at] as string])
      if (expiresAt !== -1) keyspace.expire(key, expiresAt)
    }
  }

  async #compareMessages(step: number): Promise<number> {
    await this.#server.admin.publish(MARKER, '')
    let count = 0
    for (const [index, link] of this.#links.entries()) {
      const [theirs, ours] = await link.take()
      count += theirs.length
      if (!this.#isChapterUndecided)
        assert.deepEqual(ours, theirs, `seed ${this.#seed}, messages of connection ${index} up to step ${step}`)
    }
    this.#isChapterUndecided = false
    return count
  }
}

/** A subscriber connection to both. */
class Link {
  readonly #redis: Redis
  readonly #plain = new Set<string>()
  readonly #sharded = new Set<string>()
  #theirs: string[] = []
  #ours: string[] = []
  #marks = 0

  private constructor(redis: Redis, memory: MemoryRedis) {
    this.#redis = redis
    redis.on('message', (channel: string, message: string) => {
      if (channel === MARKER) this.#marks++
      else this.#theirs.push(`${channel} ${message}`)
    })
    redis.on('smessage', (channel: string, message: string) => this.#theirs.push(`sharded ${channel} ${message}`))
    memory.connect((channel, message, isSharded) => {
      const isHeard = (isSharded ? this.#sharded : this.#plain).has(channel)
      if (isHeard) this.#ours.push(`${isSharded ? 'sharded ' : ''}${channel} ${message}`)
      return isHeard
    })
  }

  static async open(admin: Redis, memory: MemoryRedis, dice: Dice): Promise<Link> {
    const link = new Link(admin.duplicate(), memory)
    await link.#redis.subscribe(MARKER)
    for (let count = ALL_CHANNELS.length; count > 0; count--) await link.toggle(dice)
    return link
  }

  /** How many messages it received in memory. */
  get received(): number {
    return this.#ours.length
  }

  /** Forgets the messages in memory after the first so many, and returns them. */
  takeBack(count: number): readonly string[] {
    return this.#ours.splice(count)
  }

  receive(messages: readonly string[]): void {
    this.#ours.push(...messages)
  }

  /** Subscribes to a channel, or unsubscribes from it. */
  async toggle(dice: Dice): Promise<void> {
    const channel = dice.pick(ALL_CHANNELS)
    const isSharded = dice.chance(0.3)
    const channels = isSharded ? this.#sharded : this.#plain
    if (channels.delete(channel))
      await (isSharded ? this.#redis.sunsubscribe(channel) : this.#redis.unsubscribe(channel))
    else {
      channels.add(channel)
      await (isSharded ? this.#redis.ssubscribe(channel) : this.#redis.subscribe(channel))
    }
  }

  /** What both received since the last time. */
  async take(): Promise<[theirs: string[], ours: string[]]> {
    await waitUntil(() => this.#marks > 0, { message: 'the marker arrives after all messages' })
    const taken: [string[], string[]] = [this.#theirs, this.#ours]
    this.#marks = 0
    this.#theirs = []
    this.#ours = []
    return taken
  }

  close(): void {
    this.#redis.disconnect()
  }
}

function commandOf({ script, keys, args }: ScriptCall): string[] {
  return ['EVALSHA', script.sha1, String(keys.length), ...keys, ...args.map(String)]
}

/** A reply, or what is left of an error: its text without the place in the script. */
async function replyOf(send: () => unknown): Promise<unknown> {
  try {
    return await send()
  } catch (error) {
    const message = (error as Error).message.replace(/ script: \w+, on @user_script:\d+\.$/, '')
    if (!message.startsWith('ERR user_script:')) return { error: message }
    return { error: /attempt to [a-z]+|bad argument/.exec(message)?.[0] ?? message }
  }
}

function dump({ keyspace }: MemoryRedis): Dumped[] {
  keyspace.tick()
  return keyspace.names().map((key) => {
    const found = keyspace.content(key)
    assert(found)
    const { type, expiresAt = -1 } = found
    const words = {
      string: () => [keyspace.execute('GET', [key])],
      hash: () => keyspace.execute('HGETALL', [key]),
      list: () => keyspace.execute('LRANGE', [key, '0', '-1']),
      zset: () => keyspace.execute('ZRANGE', [key, '0', '-1', 'WITHSCORES']),
    }[type]() as string[]
    return { key, type, expiresAt, words }
  })
}

/** Those that have not expired at `atUs`, by name. */
function normal(keys: readonly Dumped[], atUs: number): Dumped[] {
  const living = keys.filter(({ expiresAt }) => expiresAt === -1 || expiresAt >= Math.floor(atUs / 1000))
  return living.sort((one, other) => (one.key < other.key ? -1 : 1))
}

/** Whether two values are equal, or spell instants (µs, with a sign) that are no further apart than the call took. */
function alike(one: unknown, other: unknown, slackUs: number): boolean {
  if (one === other) return true
  if (Array.isArray(one) && Array.isArray(other)) {
    return one.length === other.length && one.every((item, index) => alike(item, other[index], slackUs))
  }
  if (typeof one === 'object' && typeof other === 'object' && one && other) {
    return alike(Object.entries(one), Object.entries(other), slackUs)
  }
  const [mine, theirs] = [Number(one), Number(other)]
  // ioredis reads integers up to 48 less than 2^53 exactly
  if (typeof one === 'number' && Math.abs(mine) > 2 ** 53 - 100) return Math.abs(mine - theirs) <= 2
  return (
    typeof one === typeof other &&
    Math.abs(mine) > 1.5e15 &&
    Math.abs(mine) < 3e15 &&
    Math.abs(mine - theirs) <= slackUs
  )
}
