--[[ write-lock/acquire: take the lock for an owner that does not write, or return how long the current lease has left.
     Idempotent.
     KEYS[1] lock         hash: mode -> read or write, reader -> hold count, "<writer>:write" -> hold count
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] holder       "<client id>:<owner id>:write"
     ARGV[3] prefix       what the keys of read holds begin with
     Expires late, it takes nothing
     Reply   nil          acquired
             integer      what is left of the current lease, ms (-1: no expiry)
     Source  RedissonWriteLock.tryLockInnerAsync: same key and fields ]]
-- include lease/create-lock
-- include read-lock/left-for-writer
local left = redis.call('pttl', KEYS[1])
if left ~= -2 and redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  if left < tonumber(ARGV[1]) then
    redis.call('pexpire', KEYS[1], ARGV[1])
  end
  return nil
end
if left ~= -2 then
  left = leftForWriter(KEYS[1], ARGV[3], left)
end
if left ~= -2 then
  return left
end
return createLock(KEYS[1], ARGV[1], 'mode', 'write', ARGV[2], 1)
