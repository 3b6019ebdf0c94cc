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
local lock, lease, holder = KEYS[1], tonumber(ARGV[1]), ARGV[2]
local mode = redis.call('hget', lock, 'mode')
local left = redis.call('pttl', lock)
if mode ~= 'read' and left ~= -2 and redis.call('hexists', lock, holder .. ':write') == 0 then
  return left
end
-- first the key that ends by itself, whatever is refused after it
if redis.call('pttl', KEYS[2]) < lease then
  redis.call('set', KEYS[2], 1, 'px', lease)
end
if left == -2 then
  redis.call('hset', lock, 'mode', 'read', holder, 1)
  local expires = redis.pcall('pexpire', lock, lease)
  if type(expires) == 'table' then
    redis.call('del', lock, KEYS[2])
    return expires
  end
  return nil
end
if redis.call('hexists', lock, holder) == 0 then
  redis.call('hset', lock, holder, 1)
end
if left < lease then
  redis.call('pexpire', lock, lease)
end
return nil
