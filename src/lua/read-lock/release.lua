--[[ read-lock/release: end the lease of a reader; the last one frees the lock and wakes the waiters. The lock lasts
     as long as the longest remaining read hold; dead readers do not count. If it now ends sooner than waiters expect,
     and before they poll, they are woken to ask again.
     KEYS[1] lock         hash: mode -> read or write, reader -> hold count, "<writer>:write" -> hold count
     ARGV[1] holder       "<client id>:<owner id>"
     ARGV[2] prefix       what the keys of read holds begin with
     ARGV[3] channel      the waiters' channel
     ARGV[4] message      what wakes them
     Reply   nil          this owner does not hold the lock, or its holds had ended
             integer      released; how many connections received the message (-1: publishing was refused, 0: none, or
                          others still hold the lock)
     Source  RedissonReadLock.unlockInnerAsync ]]
-- include read-lock/all-readers
local lock, holder, prefix = KEYS[1], ARGV[1], ARGV[2]
local count = redis.call('hget', lock, holder)
if not count then
  return nil
end
local wasHeld = false
for index = 1, holdCount(count) do
  wasHeld = redis.call('del', readHold(prefix, holder, index)) == 1 or wasHeld
end
redis.call('hdel', lock, holder)
local receivers = 0
if redis.call('hget', lock, 'mode') ~= 'write' then
  local longest = longestReadOfAll(lock, prefix)
  if longest > 0 then
    local before = redis.call('pttl', lock)
    redis.call('pexpire', lock, longest)
    if longest < 5000 and before - longest > 100 then
      redis.pcall('publish', ARGV[3], ARGV[4])
    end
  else
    redis.call('del', lock)
    receivers = redis.pcall('publish', ARGV[3], ARGV[4])
  end
end
if not wasHeld then
  return nil
end
return type(receivers) == 'number' and receivers or -1
