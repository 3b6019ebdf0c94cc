--[[ write-lock/release: end the lease of a writer and wake the waiters. If it also reads, it continues to read: waiting
     readers are woken, and the lock lasts as long as its longest read hold.
     KEYS[1] lock         hash: mode -> read or write, reader -> hold count, "<writer>:write" -> hold count
     ARGV[1] holder       "<client id>:<owner id>:write"
     ARGV[2] prefix       what the keys of read holds begin with
     ARGV[3] channel      the waiters' channel
     ARGV[4] message      what wakes them
     Reply   nil          this owner does not write
             integer      released; how many connections received the message (-1: publishing was refused)
             "unfinished" there is more to do than one call does: call again
     Source  RedissonWriteLock.unlockInnerAsync, counter = 0 ]]
-- include read-lock/all-readers
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return nil
end
local longest, seen, dead = longestReadOfAll(KEYS[1], ARGV[2], ARGV[1], -1)
removeReaders(KEYS[1], dead)
if seen == 'dead' then
  return 'unfinished'
end
redis.call('hdel', KEYS[1], ARGV[1])
if seen ~= 'all' then
  redis.call('hset', KEYS[1], 'mode', 'read')
elseif longest > 0 then
  redis.call('hset', KEYS[1], 'mode', 'read')
  redis.call('pexpire', KEYS[1], longest)
else
  redis.call('del', KEYS[1])
end
local receivers = redis.pcall('publish', ARGV[3], ARGV[4])
return type(receivers) == 'number' and receivers or -1
