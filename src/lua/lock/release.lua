--[[ lock/release: end the lease of an owner and wake the waiters. A user without the right to publish still frees the
     lock, and the reply says that nobody was notified.
     KEYS[1] lock         hash: holder -> hold count
     ARGV[1] holder       "<client id>:<owner id>"
     ARGV[2] channel      the waiters' channel; empty: none
     ARGV[3] message      what wakes them
     Reply   nil          this owner does not hold the lock
             integer      released; how many connections received the message (-1: publishing was refused)
     Source  RedissonLock.unlockInnerAsync, counter = 0 ]]
-- the only field: the lock goes with it
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
  return nil
end
if ARGV[2] == '' then
  return 0
end
local receivers = redis.pcall('publish', ARGV[2], ARGV[3])
if type(receivers) == 'number' then
  return receivers
end
return -1
