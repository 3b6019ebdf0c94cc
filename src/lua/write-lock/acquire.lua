--[[ write-lock/acquire: take the lock for an owner that does not write, or say how long the present lease has left. Runs
     twice without harm.
     KEYS[1] lock         hash: mode -> read or write, reader -> hold count, "<writer>:write" -> hold count
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] holder       "<client id>:<owner id>:write"
     Reply   nil          acquired
             integer      lease left to the present holder, ms (-1: no expiry)
     Source  RedissonWriteLock.tryLockInnerAsync: same key and fields ]]
if redis.call('exists', KEYS[1]) == 1 then
  local left = redis.call('pttl', KEYS[1])
  if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
    return left
  end
  if left < tonumber(ARGV[1]) then
    redis.call('pexpire', KEYS[1], ARGV[1])
  end
  return nil
end
redis.call('hset', KEYS[1], 'mode', 'write', ARGV[2], 1)
local expires = redis.pcall('pexpire', KEYS[1], ARGV[1])
if type(expires) == 'table' then
  -- as lock/acquire
  redis.call('del', KEYS[1])
  return expires
end
return nil
