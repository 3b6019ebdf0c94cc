/** The scripts of the twin for semaphores and latches: they do what Redisson's scripts do. */

// KEYS semaphore · ARGV permits · 1 acquired, 0 refused. RedissonSemaphore.tryAcquireAsync0
export const SEMAPHORE_ACQUIRE = `
local value = redis.call('get', KEYS[1])
if value ~= false and tonumber(value) >= tonumber(ARGV[1]) then
  redis.call('decrby', KEYS[1], ARGV[1])
  return 1
end
return 0`

// KEYS semaphore, channel · ARGV permits. RedissonSemaphore.releaseAsync
export const SEMAPHORE_RELEASE = `
redis.call('publish', KEYS[2], redis.call('incrby', KEYS[1], ARGV[1]))
return nil`

// KEYS semaphore, channel · ARGV permits · 1 created, 0 there was one. RedissonSemaphore.trySetPermitsAsync
export const SET_PERMITS = `
if redis.call('exists', KEYS[1]) == 1 then
  return 0
end
redis.call('set', KEYS[1], ARGV[1])
redis.call('publish', KEYS[2], ARGV[1])
return 1`

// What the scripts of RedissonPermitExpirableSemaphore begin with. KEYS semaphore, leases, channel · ARGV now, limit
const RECLAIM = `
local expired = redis.call('zrangebyscore', KEYS[2], 0, ARGV[1], 'limit', 0, ARGV[2])
if #expired > 0 then
  redis.call('zrem', KEYS[2], unpack(expired))
  local value = redis.call('incrby', KEYS[1], #expired)
  if value > 0 then
    redis.call('publish', KEYS[3], value)
  end
end`

// KEYS as above · ARGV now, count, expiry, score of a lease that never ends, ids · OK: acquired; else `:` and the score of
// the next to end, or nil.
// RedissonPermitExpirableSemaphore.tryAcquireAsync
export const PERMIT_ACQUIRE = `
${RECLAIM}
local count = tonumber(ARGV[2])
local value = redis.call('get', KEYS[1])
if value ~= false and tonumber(value) >= count then
  redis.call('decrby', KEYS[1], count)
  for n = 5, #ARGV do
    redis.call('zadd', KEYS[2], ARGV[3], ARGV[n])
  end
  local left = redis.call('pttl', KEYS[1])
  if left > 0 then
    redis.call('pexpire', KEYS[2], left)
  end
  return 'OK'
end
local first = redis.call('zrange', KEYS[2], 0, 0, 'withscores')
if first[2] and first[2] ~= ARGV[4] then
  return ':' .. first[2]
end
return nil`

// KEYS as above · ARGV id, now · 1 released, 0 nobody holds it. RedissonPermitExpirableSemaphore.tryReleaseAsync
export const PERMIT_RELEASE = `
local expiry = redis.call('zscore', KEYS[2], ARGV[1])
if redis.call('zrem', KEYS[2], ARGV[1]) == 0 then
  return 0
end
redis.call('publish', KEYS[3], redis.call('incrby', KEYS[1], 1))
return tonumber(expiry) <= tonumber(ARGV[2]) and 0 or 1`

// KEYS latch, channel · ARGV count, message · 1 closed, 0 it was. RedissonCountDownLatch.trySetCountAsync
export const SET_COUNT = `
if redis.call('exists', KEYS[1]) == 1 then
  return 0
end
redis.call('set', KEYS[1], ARGV[1])
redis.call('publish', KEYS[2], ARGV[2])
return 1`

// KEYS latch, channel · ARGV message. RedissonCountDownLatch.countDownAsync
export const COUNT_DOWN = `
local value = redis.call('decr', KEYS[1])
if value <= 0 then
  redis.call('del', KEYS[1])
end
if value == 0 then
  redis.call('publish', KEYS[2], ARGV[1])
end
return nil`
