--[[ faster-multi-lock/release: end the lease of an owner and wake the waiters of the group. Frees what it still has
     even if some of its values were lost.
     KEYS[1] group        hash, as in faster-multi-lock/acquire
     ARGV[1] holder       "<client id>:<owner id>"
     ARGV[2] channel      where waiters listen
     ARGV[3] message      what wakes them
     ARGV[4…] fields      the digests of the values
     Reply   nil          this owner did not hold them all
             integer      released; how many connections heard it (-1: publishing was refused)
     Source  RedissonFasterMultiLock.unlockInnerAsync, counter = 0 ]]
local freed = 0
for n = 4, #ARGV do
  local field, mine = ARGV[n], ARGV[n] .. ':' .. ARGV[1]
  if redis.call('hget', KEYS[1], field) == ARGV[1] then
    redis.call('hdel', KEYS[1], field)
    freed = freed + 1
  end
  -- also after Redisson took it over: it leaves these where they are
  redis.call('hdel', KEYS[1], mine .. ':expire_time', mine .. ':lock_count')
end
if freed == 0 then
  return nil
end
local heard = redis.pcall('publish', ARGV[2], ARGV[3])
if freed < #ARGV - 3 then
  return nil
end
return type(heard) == 'number' and heard or -1
