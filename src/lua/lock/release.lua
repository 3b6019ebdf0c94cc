--[[ lock/release: end the lease of an owner and wake the waiters.
     PUBLISH is called protected: without the right to publish the lock is free all the same, and the caller is told.
     KEYS[1] lock         hash: holder -> hold count
     ARGV[1] holder       "<client id>:<owner id>"
     ARGV[2] channel      where waiters listen; empty: nowhere
     ARGV[3] message      what wakes them
     Reply   nil          this owner does not hold the lock
             integer      released; how many connections heard it (-1: publishing was refused)
     Source  RedissonLock.unlockInnerAsync, counter = 0 ]]
-- it is the only field: with it the lock goes
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
  return nil
end
if ARGV[2] == '' then
  return 0
end
local heard = redis.pcall('publish', ARGV[2], ARGV[3])
if type(heard) == 'number' then
  return heard
end
return -1
