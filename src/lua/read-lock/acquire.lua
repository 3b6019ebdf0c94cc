--[[ read-lock/acquire: join the readers, or return how long the current lease of a writer has left. The writer itself
     may also read. Idempotent.
     KEYS[1] lock         hash: mode -> read or write, reader -> hold count, "<writer>:write" -> hold count
     KEYS[2] readHold     string: this owner's first read hold
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] holder       "<client id>:<owner id>"
     Expires late, it takes nothing
     Reply   nil          acquired
             integer      what is left of the current lease, ms (-1: no expiry)
     Source  RedissonReadLock.tryLockInnerAsync: same keys and fields ]]
local lease, holder = tonumber(ARGV[1]), ARGV[2]
local mode = redis.call('hget', KEYS[1], 'mode')
local left = redis.call('pttl', KEYS[1])
if mode ~= 'read' and left ~= -2 and redis.call('hexists', KEYS[1], holder .. ':write') == 0 then
  return left
end
-- first the key that ends by itself, whatever is refused after it
if redis.call('pttl', KEYS[2]) < lease then
  redis.call('set', KEYS[2], 1, 'px', lease)
end
if left == -2 then
  redis.call('hset', KEYS[1], 'mode', 'read', holder, 1)
  local expires = redis.pcall('pexpire', KEYS[1], lease)
  if type(expires) == 'table' then
    redis.call('del', KEYS[1], KEYS[2])
    return expires
  end
  return nil
end
if redis.call('hexists', KEYS[1], holder) == 0 then
  redis.call('hset', KEYS[1], holder, 1)
end
if left < lease then
  redis.call('pexpire', KEYS[1], lease)
end
return nil
