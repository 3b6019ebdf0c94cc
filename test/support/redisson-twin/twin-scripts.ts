/** The scripts of the twin for locks: they do what Redisson's scripts do. */

// KEYS lock, channel · ARGV holder, lease · nil: acquired; else the lease left. RedissonLock.tryLockInnerAsync
export const ACQUIRE = `
local mine = redis.call('hexists', KEYS[1], ARGV[1]) == 1
if not mine and redis.call('exists', KEYS[1]) == 1 then
  return redis.call('pttl', KEYS[1])
end
redis.call('hincrby', KEYS[1], ARGV[1], 1)
redis.call('pexpire', KEYS[1], ARGV[2])
return nil`

// KEYS lock, channel, latch · ARGV holder, lease, message, latch ms · 1 free, 0 still held, nil not the holder's.
// RedissonLock.unlockInnerAsync
export const RELEASE = `
local reply = redis.call('get', KEYS[3])
if reply then
  return tonumber(reply)
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
export const RENEW = `
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return 0
end
return redis.call('pexpire', KEYS[1], ARGV[2])`

// KEYS lock, channel · ARGV message · 1 was held, 0 was free. RedissonLock.forceUnlockAsync
export const FORCE = `
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
export const FAIR_ACQUIRE = `
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
export const FAIR_RELEASE = `
local reply = redis.call('get', KEYS[4])
if reply then
  return tonumber(reply)
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
export const FAIR_LEAVE = `
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
export const READ_ACQUIRE = `
local mode = redis.call('hget', KEYS[1], 'mode')
if mode and mode ~= 'read' and redis.call('hexists', KEYS[1], ARGV[1] .. ':write') == 0 then
  return redis.call('pttl', KEYS[1])
end
local index, lease = 1, tonumber(ARGV[2])
if mode then
  index = redis.call('hincrby', KEYS[1], ARGV[1], 1)
  lease = math.max(redis.call('pttl', KEYS[1]), lease)
else
  redis.call('hset', KEYS[1], 'mode', 'read', ARGV[1], 1)
end
redis.call('set', ARGV[3] .. ARGV[1] .. ':rwlock_timeout:' .. index, 1, 'px', ARGV[2])
redis.call('pexpire', KEYS[1], lease)
return nil`

// KEYS lock, latch · ARGV holder, prefix of hold keys, channel, message, latch ms · 1 free, 0 still held,
// nil not the holder's. RedissonReadLock.unlockInnerAsync
export const READ_RELEASE = `
local reply = redis.call('get', KEYS[2])
if reply then
  return tonumber(reply)
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
export const WRITE_ACQUIRE = `
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
export const WRITE_RELEASE = `
local reply = redis.call('get', KEYS[2])
if reply then
  return tonumber(reply)
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
export const FENCED_ACQUIRE = `
if redis.call('exists', KEYS[1]) == 1 and redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return { redis.call('pttl', KEYS[1]), -1 }
end
local token = redis.call('incr', KEYS[2])
redis.call('hincrby', KEYS[1], ARGV[1], 1)
redis.call('pexpire', KEYS[1], ARGV[2])
return { -1, token }`

// KEYS group · ARGV lease, holder, now, fields · nil: acquired; else the lease left. RedissonFasterMultiLock.tryLockInnerAsync
export const GROUP_ACQUIRE = `
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
export const GROUP_RELEASE = `
local reply = redis.call('get', KEYS[2])
if reply then
  return tonumber(reply)
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
