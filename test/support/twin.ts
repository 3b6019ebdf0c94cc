import { randomBytes, randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import type { AnyLab } from './lab.js'
import { AS_ADMIN } from './rights.js'
import { waitUntil } from './wait-until.js'

/** Redisson's defaults: `timeout`, and (`timeout` + the middle of `retryDelay`) x `retryAttempts`. */
const RESPONSE_TIMEOUT_MS = 3_000
const LATCH_MS = 18_000
/** What a waiter without a wait time adds to its deadline, ms. RedissonFairLock: `fairLockWaitTimeout`. */
export const FAIR_WAIT_MS = 300_000
const UNLOCKED = '0'
const WRITE_UNLOCKED = '1'

// KEYS lock, channel · ARGV holder, lease · nil: acquired; else the lease left. RedissonLock.tryLockInnerAsync
const ACQUIRE = `
local mine = redis.call('hexists', KEYS[1], ARGV[1]) == 1
if not mine and redis.call('exists', KEYS[1]) == 1 then
  return redis.call('pttl', KEYS[1])
end
redis.call('hincrby', KEYS[1], ARGV[1], 1)
redis.call('pexpire', KEYS[1], ARGV[2])
return nil`

// KEYS lock, channel, latch · ARGV holder, lease, message, latch ms · 1 free, 0 still held, nil not the holder's.
// RedissonLock.unlockInnerAsync
const RELEASE = `
local answered = redis.call('get', KEYS[3])
if answered then
  return tonumber(answered)
end
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return nil
end
local released = 0
if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then
  redis.call('pexpire', KEYS[1], ARGV[2])
else
  redis.call('del', KEYS[1])
  redis.call('publish', KEYS[2], ARGV[3])
  released = 1
end
redis.call('set', KEYS[3], released, 'px', ARGV[4])
return released`

// KEYS lock · ARGV holder, lease · 1 renewed, 0 not the holder's. LockTask.renew
const RENEW = `
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return 0
end
return redis.call('pexpire', KEYS[1], ARGV[2])`

// KEYS lock, channel · ARGV message · 1 was held, 0 was free. RedissonLock.forceUnlockAsync
const FORCE = `
local existed = redis.call('del', KEYS[1])
if existed == 1 then
  redis.call('publish', KEYS[2], ARGV[1])
end
return existed`

// What the scripts of RedissonFairLock begin with: those at the head whose deadline is over leave. A local `now`.
const EVICT = `
while true do
  local stale = redis.call('lindex', KEYS[2], 0)
  local deadline = stale and redis.call('zscore', KEYS[3], stale)
  if not deadline or tonumber(deadline) > now then
    break
  end
  redis.call('zrem', KEYS[3], stale)
  redis.call('lpop', KEYS[2])
end`

// KEYS lock, queue, deadlines · ARGV holder, lease, wait, now, queueing · nil: acquired; else the sleep limit, or 1 if
// not queueing. RedissonFairLock.tryLockInnerAsync
const FAIR_ACQUIRE = `
local wait, now = tonumber(ARGV[3]), tonumber(ARGV[4])
${EVICT}
local left = redis.call('pttl', KEYS[1])
local first = redis.call('lindex', KEYS[2], 0)
if left == -2 and (not first or first == ARGV[1]) then
  redis.call('lpop', KEYS[2])
  redis.call('zrem', KEYS[3], ARGV[1])
  for _, waiter in ipairs(redis.call('zrange', KEYS[3], 0, -1)) do
    redis.call('zincrby', KEYS[3], -wait, waiter)
  end
  redis.call('hset', KEYS[1], ARGV[1], 1)
  redis.call('pexpire', KEYS[1], ARGV[2])
  return nil
end
if redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[1], 1)
  redis.call('pexpire', KEYS[1], ARGV[2])
  return nil
end
if ARGV[5] == '0' then
  return 1
end
if redis.call('zscore', KEYS[3], ARGV[1]) then
  return math.max(0, left)
end
local last = redis.call('lindex', KEYS[2], -1)
local ahead = last and redis.call('zscore', KEYS[3], last)
if ahead then
  left = tonumber(ahead) - now
end
if redis.call('zadd', KEYS[3], left + wait + now, ARGV[1]) == 1 then
  redis.call('rpush', KEYS[2], ARGV[1])
end
return left`

// KEYS lock, queue, deadlines, latch · ARGV holder, lease, channel prefix, message, now, latch ms · as RELEASE.
// RedissonFairLock.unlockInnerAsync
const FAIR_RELEASE = `
local answered = redis.call('get', KEYS[4])
if answered then
  return tonumber(answered)
end
local now = tonumber(ARGV[5])
${EVICT}
local released = 1
if redis.call('exists', KEYS[1]) == 1 then
  if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return nil
  end
  if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then
    redis.call('pexpire', KEYS[1], ARGV[2])
    released = 0
  else
    redis.call('del', KEYS[1])
  end
end
local first = redis.call('lindex', KEYS[2], 0)
if released == 1 and first then
  redis.call('publish', ARGV[3] .. first, ARGV[4])
end
redis.call('set', KEYS[4], released, 'px', ARGV[6])
return released`

// KEYS lock, queue, deadlines · ARGV holder, wait. RedissonFairLock.acquireFailedAsync
const FAIR_LEAVE = `
local isBehind = false
for _, waiter in ipairs(redis.call('lrange', KEYS[2], 0, -1)) do
  if isBehind then
    redis.call('zincrby', KEYS[3], -tonumber(ARGV[2]), waiter)
  end
  isBehind = isBehind or waiter == ARGV[1]
end
redis.call('zrem', KEYS[3], ARGV[1])
redis.call('lrem', KEYS[2], 0, ARGV[1])
return nil`

// KEYS lock · ARGV holder, lease, prefix of hold keys · as ACQUIRE. RedissonReadLock.tryLockInnerAsync
const READ_ACQUIRE = `
local mode = redis.call('hget', KEYS[1], 'mode')
if mode and mode ~= 'read' and redis.call('hexists', KEYS[1], ARGV[1] .. ':write') == 0 then
  return redis.call('pttl', KEYS[1])
end
if not mode then
  redis.call('hset', KEYS[1], 'mode', 'read')
end
local index = redis.call('hincrby', KEYS[1], ARGV[1], 1)
redis.call('set', ARGV[3] .. ARGV[1] .. ':rwlock_timeout:' .. index, 1, 'px', ARGV[2])
redis.call('pexpire', KEYS[1], math.max(redis.call('pttl', KEYS[1]), ARGV[2]))
return nil`

// KEYS lock, latch · ARGV holder, prefix of hold keys, channel, message, latch ms · 1 free, 0 somebody still holds it,
// nil not the holder's. RedissonReadLock.unlockInnerAsync
const READ_RELEASE = `
local answered = redis.call('get', KEYS[2])
if answered then
  return tonumber(answered)
end
local mode = redis.call('hget', KEYS[1], 'mode')
if not mode then
  redis.call('publish', ARGV[3], ARGV[4])
  redis.call('set', KEYS[2], 1, 'px', ARGV[5])
  return nil
end
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return nil
end
local count = redis.call('hincrby', KEYS[1], ARGV[1], -1)
if count == 0 then
  redis.call('hdel', KEYS[1], ARGV[1])
end
redis.call('del', ARGV[2] .. ARGV[1] .. ':rwlock_timeout:' .. (count + 1))
local released = 1
if redis.call('hlen', KEYS[1]) > 1 then
  local longest = -3
  for _, field in ipairs(redis.call('hkeys', KEYS[1])) do
    for index = tonumber(redis.call('hget', KEYS[1], field)) or 0, 1, -1 do
      longest = math.max(longest, redis.call('pttl', ARGV[2] .. field .. ':rwlock_timeout:' .. index))
    end
  end
  if longest > 0 then
    redis.call('pexpire', KEYS[1], longest)
    released = 0
  elseif mode == 'write' then
    released = 0
  end
end
if released == 1 then
  redis.call('del', KEYS[1])
  redis.call('publish', ARGV[3], ARGV[4])
end
redis.call('set', KEYS[2], released, 'px', ARGV[5])
return released`

// KEYS lock · ARGV "<holder>:write", lease · as ACQUIRE. RedissonWriteLock.tryLockInnerAsync
const WRITE_ACQUIRE = `
local mode = redis.call('hget', KEYS[1], 'mode')
if not mode then
  redis.call('hset', KEYS[1], 'mode', 'write', ARGV[1], 1)
  redis.call('pexpire', KEYS[1], ARGV[2])
  return nil
end
local left = redis.call('pttl', KEYS[1])
if mode == 'write' and redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[1], 1)
  redis.call('pexpire', KEYS[1], left + ARGV[2])
  return nil
end
return left`

// KEYS lock, latch · ARGV "<holder>:write", lease, channel, message, latch ms · as RELEASE.
// RedissonWriteLock.unlockInnerAsync
const WRITE_RELEASE = `
local answered = redis.call('get', KEYS[2])
if answered then
  return tonumber(answered)
end
local mode = redis.call('hget', KEYS[1], 'mode')
if not mode then
  redis.call('publish', ARGV[3], ARGV[4])
  redis.call('set', KEYS[2], 1, 'px', ARGV[5])
  return nil
end
if mode ~= 'write' or redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return nil
end
local released = 0
if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then
  redis.call('pexpire', KEYS[1], ARGV[2])
else
  redis.call('hdel', KEYS[1], ARGV[1])
  if redis.call('hlen', KEYS[1]) == 1 then
    redis.call('del', KEYS[1])
    redis.call('publish', ARGV[3], ARGV[4])
  else
    redis.call('hset', KEYS[1], 'mode', 'read')
  end
  released = 1
end
redis.call('set', KEYS[2], released, 'px', ARGV[5])
return released`

// KEYS lock, tokens · ARGV holder, lease · -1 and the token; else the lease left and -1.
// RedissonFencedLock.tryLockAndGetTokenInnerAsync
const FENCED_ACQUIRE = `
if redis.call('exists', KEYS[1]) == 1 and redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return { redis.call('pttl', KEYS[1]), -1 }
end
local token = redis.call('incr', KEYS[2])
redis.call('hincrby', KEYS[1], ARGV[1], 1)
redis.call('pexpire', KEYS[1], ARGV[2])
return { -1, token }`

// KEYS group · ARGV lease, holder, now, fields · nil: acquired; else the lease left. RedissonFasterMultiLock.tryLockInnerAsync
const GROUP_ACQUIRE = `
local lease, holder, now = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local existed = redis.call('exists', KEYS[1]) == 1
local longest = -1
for n = 4, #ARGV do
  local owner = redis.call('hget', KEYS[1], ARGV[n])
  local expiry = owner and owner ~= holder and redis.call('hget', KEYS[1], ARGV[n] .. ':' .. owner .. ':expire_time')
  if expiry and tonumber(expiry) > now then
    longest = math.max(longest, tonumber(expiry))
  end
end
if longest > -1 then
  return longest - now
end
for n = 4, #ARGV do
  local mine = ARGV[n] .. ':' .. holder
  redis.call('hset', KEYS[1], ARGV[n], holder)
  local expiry = redis.call('hget', KEYS[1], mine .. ':expire_time')
  if not expiry or tonumber(expiry) < now + lease then
    redis.call('hset', KEYS[1], mine .. ':expire_time', now + lease)
  end
  redis.call('hincrby', KEYS[1], mine .. ':lock_count', 1)
end
local left = redis.call('pttl', KEYS[1])
if not existed or (left > 0 and lease > left) then
  redis.call('pexpire', KEYS[1], lease)
end
return nil`

// KEYS group, latch · ARGV holder, lease, now, channel, message, latch ms, fields · as RELEASE.
// RedissonFasterMultiLock.unlockInnerAsync
const GROUP_RELEASE = `
local answered = redis.call('get', KEYS[2])
if answered then
  return tonumber(answered)
end
if redis.call('exists', KEYS[1]) == 0 then
  redis.call('publish', ARGV[4], ARGV[5])
  return nil
end
local lease, now = tonumber(ARGV[2]), tonumber(ARGV[3])
local failed, released = false, 1
for n = 7, #ARGV do
  local mine = ARGV[n] .. ':' .. ARGV[1]
  local expiry = redis.call('hget', KEYS[1], mine .. ':expire_time')
  if not expiry or tonumber(expiry) < now then
    failed = true
  elseif redis.call('hincrby', KEYS[1], mine .. ':lock_count', -1) <= 0 then
    redis.call('hdel', KEYS[1], ARGV[n], mine .. ':expire_time', mine .. ':lock_count')
  else
    released = 0
    redis.call('hset', KEYS[1], mine .. ':expire_time', math.max(tonumber(expiry), now + lease))
  end
end
if failed then
  return nil
end
redis.call('publish', ARGV[4], ARGV[5])
if released == 0 and lease > redis.call('pttl', KEYS[1]) then
  redis.call('pexpire', KEYS[1], lease)
end
redis.call('set', KEYS[2], released, 'px', ARGV[6])
return released`

/** What a lock is called in Redis, with all that belongs to it. RedissonObject.prefixName: a name with a `{` keeps its own braces. */
export function keyNames(name: string) {
  const tagged = name.includes('{') ? name : `{${name}}`
  const channel = `redisson_lock__channel:${tagged}`
  return {
    lock: name,
    channel,
    latch: (requestId: string) => `redisson_unlock_latch:${tagged}:${requestId}`,
    queue: `redisson_lock_queue:${tagged}`,
    deadlines: `redisson_lock_timeout:${tagged}`,
    fairChannel: (holder: string) => `${channel}:${holder}`,
    readWriteChannel: `redisson_rwlock:${tagged}`,
    readHold: (holder: string, index: number) => `${tagged}:${holder}:rwlock_timeout:${index}`,
    tokens: `redisson_lock_token:${tagged}`,
  }
}

/** Stands in for a Java process with Redisson 4.7: its locks as their scripts speak, on connections of its own. */
export async function startTwin(url: string): Promise<Twin> {
  const twin = new Twin(url)
  await twin.connected()
  return twin
}

/** Starts a twin on the server of a lab, until the end of the test. */
export async function openTwin({ server, onEnd }: AnyLab): Promise<Twin> {
  const twin = await startTwin(server.url)
  onEnd(() => twin.close())
  return twin
}

/** One published message. */
export interface Message {
  readonly channel: string
  readonly payload: string
  /** `performance.now()` when it arrived. */
  readonly at: number
}

export interface Listening {
  /** All messages so far, in order of arrival. */
  readonly messages: readonly Message[]
  /** The oldest message that `next` has not answered yet, waiting for it up to 5 s. */
  next(): Promise<Message>
  stop(): Promise<void>
}

/** Redisson's locks, for one client id. Thread ids are the caller's. */
export class Twin implements AsyncDisposable {
  readonly clientId = randomUUID()
  readonly keyNames = keyNames
  readonly #commands: Redis
  readonly #subscriptions: Subscriptions

  constructor(url: string) {
    // Redisson in single mode sends neither an acquire nor an unlock twice.
    const options = {
      ...AS_ADMIN,
      lazyConnect: true,
      autoResendUnfulfilledCommands: false,
      commandTimeout: RESPONSE_TIMEOUT_MS,
    }
    this.#commands = new Redis(url, options)
    this.#subscriptions = new Subscriptions(new Redis(url, options))
    this.#commands.on('error', () => {})
  }

  async connected(): Promise<void> {
    await Promise.all([this.#commands.connect(), this.#subscriptions.connected()])
  }

  /** How many of its threads sleep until a message or the end of a lease. */
  get sleeping(): number {
    return this.#subscriptions.sleeping
  }

  /** `<client id>:<thread id>`: the field of the lock's hash. */
  holder(threadId: number): string {
    return `${this.clientId}:${threadId}`
  }

  /** Takes the lock, again if this thread holds it. Answers null if acquired, else the lease left, ms (-1: no expiry). */
  async acquire(name: string, threadId: number, leaseMs: number): Promise<number | null> {
    const { lock, channel } = keyNames(name)
    return number(await this.#commands.eval(ACQUIRE, 2, lock, channel, this.holder(threadId), leaseMs))
  }

  /** Gives one hold back. Answers 1 if the lock is free now, 0 if still held, null if it is not this thread's. */
  async release(name: string, threadId: number, leaseMs = 30_000): Promise<0 | 1 | null> {
    const { lock, channel } = keyNames(name)
    return await this.#release(name, RELEASE, [lock, channel], [this.holder(threadId), leaseMs, UNLOCKED, LATCH_MS])
  }

  /** One tick of the watchdog. Answers 1 if renewed, 0 if the lock is not this thread's. */
  async renew(name: string, threadId: number, leaseMs: number): Promise<0 | 1> {
    return flag(number(await this.#commands.eval(RENEW, 1, name, this.holder(threadId), leaseMs)))
  }

  /** Frees the lock, whoever holds it. Answers 1 if somebody did. */
  async force(name: string): Promise<0 | 1> {
    const { lock, channel } = keyNames(name)
    return flag(number(await this.#commands.eval(FORCE, 2, lock, channel, UNLOCKED)))
  }

  /**
   * RedissonLock.tryLock(waitTime, leaseTime): try, subscribe, try again, then sleep until a message or the end of the
   * lease that was told, whichever comes first.
   * @param waitMs longest wait, ms; `Infinity` waits as RedissonLock.lock does
   * @returns whether the lock was acquired
   */
  async lock(name: string, threadId: number, leaseMs: number, waitMs: number): Promise<boolean> {
    return await this.#wait(keyNames(name).channel, waitMs, () => this.acquire(name, threadId, leaseMs))
  }

  /**
   * RedissonFairLock: takes the lock when it is this thread's turn, else queues it. Answers null if acquired, else for how
   * long to sleep at most.
   * @param waitMs what is added to the deadlines; default Redisson's `fairLockWaitTimeout`
   */
  async fairAcquire(name: string, threadId: number, leaseMs: number, waitMs = FAIR_WAIT_MS): Promise<number | null> {
    return await this.#fairAcquire(name, threadId, leaseMs, waitMs, 1)
  }

  /** RedissonFairLock.tryLock() without a wait: never queues. */
  async fairTry(name: string, threadId: number, leaseMs: number): Promise<boolean> {
    return (await this.#fairAcquire(name, threadId, leaseMs, FAIR_WAIT_MS, 0)) === null
  }

  async #fairAcquire(name: string, threadId: number, leaseMs: number, waitMs: number, isQueueing: number) {
    const { lock, queue, deadlines } = keyNames(name)
    const args = [this.holder(threadId), leaseMs, waitMs, Date.now(), isQueueing]
    return number(await this.#commands.eval(FAIR_ACQUIRE, 3, lock, queue, deadlines, ...args))
  }

  /** As `release`; also 1 if nobody holds the lock. */
  async fairRelease(name: string, threadId: number, leaseMs = 30_000): Promise<0 | 1 | null> {
    const { lock, queue, deadlines, fairChannel } = keyNames(name)
    const args = [this.holder(threadId), leaseMs, fairChannel(''), UNLOCKED, Date.now(), LATCH_MS]
    return await this.#release(name, FAIR_RELEASE, [lock, queue, deadlines], args)
  }

  /** Gives a place in the queue up. */
  async fairLeave(name: string, threadId: number, waitMs = FAIR_WAIT_MS): Promise<void> {
    const { lock, queue, deadlines } = keyNames(name)
    await this.#commands.eval(FAIR_LEAVE, 3, lock, queue, deadlines, this.holder(threadId), waitMs)
  }

  /** As `lock`, in the order of asking. */
  async fairLock(name: string, threadId: number, leaseMs: number, waitMs: number): Promise<boolean> {
    const channel = keyNames(name).fairChannel(this.holder(threadId))
    const patience = Number.isFinite(waitMs) ? waitMs : FAIR_WAIT_MS
    const held = await this.#wait(channel, waitMs, () => this.fairAcquire(name, threadId, leaseMs, patience))
    if (!held) await this.fairLeave(name, threadId, patience)
    return held
  }

  /** RedissonReadLock: as `acquire`. */
  async readAcquire(name: string, threadId: number, leaseMs: number): Promise<number | null> {
    const { lock, readHold } = keyNames(name)
    const holder = this.holder(threadId)
    const prefix = readHold(holder, 1).split(holder)[0] ?? ''
    return number(await this.#commands.eval(READ_ACQUIRE, 1, lock, holder, leaseMs, prefix))
  }

  /** Answers 1 if the lock is free now, 0 if somebody still has it, null if it is not this thread's. */
  async readRelease(name: string, threadId: number): Promise<0 | 1 | null> {
    const { lock, readHold, readWriteChannel } = keyNames(name)
    const holder = this.holder(threadId)
    const prefix = readHold(holder, 1).split(holder)[0] ?? ''
    return await this.#release(name, READ_RELEASE, [lock], [holder, prefix, readWriteChannel, UNLOCKED, LATCH_MS])
  }

  /** As `lock`, for a reader. */
  async readLock(name: string, threadId: number, leaseMs: number, waitMs: number): Promise<boolean> {
    return await this.#wait(keyNames(name).readWriteChannel, waitMs, () => this.readAcquire(name, threadId, leaseMs))
  }

  /** RedissonWriteLock: as `acquire`. */
  async writeAcquire(name: string, threadId: number, leaseMs: number): Promise<number | null> {
    return number(await this.#commands.eval(WRITE_ACQUIRE, 1, name, `${this.holder(threadId)}:write`, leaseMs))
  }

  /** As `release`; a thread that reads, too, goes on reading. */
  async writeRelease(name: string, threadId: number, leaseMs = 30_000): Promise<0 | 1 | null> {
    const { lock, readWriteChannel } = keyNames(name)
    const args = [`${this.holder(threadId)}:write`, leaseMs, readWriteChannel, WRITE_UNLOCKED, LATCH_MS]
    return await this.#release(name, WRITE_RELEASE, [lock], args)
  }

  /** As `lock`, for a writer. */
  async writeLock(name: string, threadId: number, leaseMs: number, waitMs: number): Promise<boolean> {
    return await this.#wait(keyNames(name).readWriteChannel, waitMs, () => this.writeAcquire(name, threadId, leaseMs))
  }

  /** RedissonFencedLock.tryLockAndGetToken: the token, or null if refused. Released as a plain lock. */
  async fencedAcquire(name: string, threadId: number, leaseMs: number): Promise<number | null> {
    const { lock, tokens } = keyNames(name)
    const reply = await this.#commands.eval(FENCED_ACQUIRE, 2, lock, tokens, this.holder(threadId), leaseMs)
    const [left, token] = reply as [number, number]
    return left === -1 ? token : null
  }

  /** RedissonFasterMultiLock: as `acquire`, for values of a group given as digests. */
  async groupAcquire(group: string, digests: string[], threadId: number, leaseMs: number): Promise<number | null> {
    const args = [leaseMs, this.holder(threadId), Date.now(), ...digests]
    return number(await this.#commands.eval(GROUP_ACQUIRE, 1, group, ...args))
  }

  /** As `release`, for the same values. */
  async groupRelease(group: string, digests: string[], threadId: number, leaseMs = 30_000): Promise<0 | 1 | null> {
    const args = [this.holder(threadId), leaseMs, Date.now(), keyNames(group).channel, UNLOCKED, LATCH_MS, ...digests]
    return await this.#release(group, GROUP_RELEASE, [group], args)
  }

  /** As `lock`, for values of a group. */
  async groupLock(
    group: string,
    digests: string[],
    threadId: number,
    leaseMs: number,
    waitMs: number,
  ): Promise<boolean> {
    const attempt = () => this.groupAcquire(group, digests, threadId, leaseMs)
    return await this.#wait(keyNames(group).channel, waitMs, attempt)
  }

  /** An unlock and its latch, which is deleted right after. */
  async #release(name: string, script: string, keys: string[], args: (string | number)[]): Promise<0 | 1 | null> {
    const latchKey = keyNames(name).latch(randomBytes(16).toString('hex'))
    const released = number(await this.#commands.eval(script, keys.length + 1, ...keys, latchKey, ...args))
    await this.#commands.del(latchKey)
    return released === null ? null : flag(released)
  }

  async #wait(channel: string, waitMs: number, attempt: () => Promise<number | null>): Promise<boolean> {
    const endsAt = performance.now() + waitMs
    if ((await attempt()) === null) return true
    if (performance.now() >= endsAt) return false
    const entry = await this.#subscriptions.join(channel)
    entry.waiters += 1
    try {
      while (performance.now() < endsAt) {
        const leftMs = await attempt()
        if (leftMs === null) return true
        await entry.wakeUp(Math.min(leftMs < 0 ? Infinity : leftMs, endsAt - performance.now()))
      }
      return false
    } finally {
      entry.waiters -= 1
      await this.#subscriptions.leave(entry)
    }
  }

  /** Hears what is published on the lock's channel, or on another one, from the moment this resolves. */
  async listen(name: string, channel = keyNames(name).channel): Promise<Listening> {
    const entry = await this.#subscriptions.join(channel)
    const messages: Message[] = []
    const hear = (message: Message) => messages.push(message)
    entry.listeners.add(hear)
    let read = 0
    return {
      messages,
      next: () => {
        const index = read++
        return waitUntil(() => messages[index], { message: `a message on ${entry.channel}` })
      },
      stop: async () => {
        if (entry.listeners.delete(hear)) await this.#subscriptions.leave(entry)
      },
    }
  }

  /** Ends the connections; holds stay until their lease ends, as those of a dead Java process. */
  close(): void {
    this.#commands.disconnect()
    this.#subscriptions.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close()
  }
}

/** PublishSubscribe: one subscription a channel, counted; gone when the last one leaves. */
class Subscriptions {
  readonly #redis: Redis
  readonly #entries = new Map<string, ChannelEntry>()

  constructor(redis: Redis) {
    this.#redis = redis
    redis.on('error', () => {})
    redis.on('message', (channel: string, payload: string) => {
      this.#entries.get(channel)?.hear({ channel, payload, at: performance.now() })
    })
  }

  async connected(): Promise<void> {
    await this.#redis.connect()
  }

  get sleeping(): number {
    return [...this.#entries.values()].reduce((sum, { sleeping }) => sum + sleeping, 0)
  }

  async join(channel: string): Promise<ChannelEntry> {
    const entry = this.#entries.get(channel) ?? new ChannelEntry(channel)
    this.#entries.set(channel, entry)
    entry.members += 1
    await this.#redis.subscribe(channel)
    return entry
  }

  async leave(entry: ChannelEntry): Promise<void> {
    entry.members -= 1
    if (entry.members > 0) return
    this.#entries.delete(entry.channel)
    await this.#redis.unsubscribe(entry.channel)
  }

  close(): void {
    this.#redis.disconnect()
    for (const entry of this.#entries.values()) entry.wakeAll()
  }
}

/**
 * RedissonLockEntry: a `0` wakes one waiter of this process; if none sleeps just now, the next one that would. A `1` wakes
 * all that sleep.
 */
class ChannelEntry {
  readonly channel: string
  readonly listeners = new Set<(message: Message) => void>()
  /** Waiters and listeners. */
  members = 0
  waiters = 0
  #permits = 0
  #sleeping: (() => void)[] = []

  constructor(channel: string) {
    this.channel = channel
  }

  get sleeping(): number {
    return this.#sleeping.length
  }

  hear(message: Message): void {
    for (const listener of this.listeners) listener(message)
    if (message.payload === WRITE_UNLOCKED) this.wakeAll() // those that sleep just now, all of them
    if (message.payload !== UNLOCKED || this.waiters === 0) return
    this.#permits += 1
    this.#sleeping.shift()?.()
  }

  /** Sleeps until a message, at most `ms`. */
  async wakeUp(ms: number): Promise<void> {
    if (this.#permits === 0) {
      await new Promise<void>((resolve) => {
        const timer = Number.isFinite(ms) ? setTimeout(() => wake(), ms) : undefined
        const wake = () => {
          clearTimeout(timer)
          this.#sleeping = this.#sleeping.filter((other) => other !== wake)
          resolve()
        }
        this.#sleeping.push(wake)
      })
    }
    if (this.#permits > 0) this.#permits -= 1
  }

  wakeAll(): void {
    for (const wake of [...this.#sleeping]) wake()
  }
}

function number(reply: unknown): number | null {
  if (reply === null || typeof reply === 'number') return reply
  throw new TypeError(`expected an integer or nil, not ${String(reply)}`)
}

function flag(reply: number | null): 0 | 1 {
  if (reply === 0 || reply === 1) return reply
  throw new TypeError(`expected 0 or 1, not ${reply}`)
}
