--[[ faster-multi-lock/release: end the lease of an owner and wake the waiters of the group. Frees what it still has,
     even if it lost some of its values.
     KEYS[1] group        hash, as in faster-multi-lock/acquire
     ARGV[1] holder       "<client id>:<owner id>"
     ARGV[2] channel      the waiters' channel
     ARGV[3] message      what wakes them
     ARGV[4…] values      their digests
     Reply   nil          this owner did not hold them all
             integer      released; how many connections received the message (-1: publishing was refused)
     Source  RedissonFasterMultiLock.unlockInnerAsync, counter = 0 ]]
local freed = 0
for n = 4, #ARGV do
  local value, prefix = ARGV[n], ARGV[n] .. ':' .. ARGV[1]
  if redis.call('hget', KEYS[1], value) == ARGV[1] then
    freed = freed + 1
    redis.call('hdel', KEYS[1], value, prefix .. ':expire_time', prefix .. ':lock_count')
  else
    -- even after Redisson took the value over: it leaves these fields behind
    redis.call('hdel', KEYS[1], prefix .. ':expire_time', prefix .. ':lock_count')
  end
end
if freed == 0 then
  return nil
end
local receivers = redis.pcall('publish', ARGV[2], ARGV[3])
if freed < #ARGV - 3 then
  return nil
end
return type(receivers) == 'number' and receivers or -1
