--[[ read-lock/release: end the lease of a reader; the last one frees the lock and wakes the waiters. The lock lasts
     as long as the longest remaining read hold, or longer if many read; dead readers do not count. If it now ends sooner
     than waiters expect, and before they poll, they are woken to ask again.
     KEYS[1] lock         hash: mode -> read or write, reader -> hold count, "<writer>:write" -> hold count
     ARGV[1] holder       "<client id>:<owner id>"
     ARGV[2] prefix       what the keys of read holds begin with
     ARGV[3] channel      the waiters' channel
     ARGV[4] message      what wakes them
     Reply   nil          this owner does not hold the lock, or its holds had ended
             integer      released; how many connections received the message (-1: publishing was refused, 0: none, or
                          others still hold the lock)
             "unfinished" there is more to do than one call does: call again
     Source  RedissonReadLock.unlockInnerAsync ]]
-- include read-lock/all-readers
-- include read-lock/delete-reader
local holder, prefix = ARGV[1], ARGV[2]
local count = redis.call('hget', KEYS[1], holder)
if not count then
  return nil
end
local isWritten, before = redis.call('hget', KEYS[1], 'mode') == 'write', redis.call('pttl', KEYS[1])
local longest, seen, dead = longestReadOfAll(KEYS[1], prefix, holder, before)
removeReaders(KEYS[1], dead)
local wasHeld = seen ~= 'dead' and deleteReader(KEYS[1], prefix, holder, count)
if seen == 'dead' or wasHeld == nil then
  return 'unfinished'
end
local receivers = 0
local isEnd = seen == 'all' and not isWritten
if isEnd and longest > 0 then
  redis.call('pexpire', KEYS[1], longest)
  if longest < 5000 and before - longest > 100 then
    redis.pcall('publish', ARGV[3], ARGV[4])
  end
elseif isEnd then
  redis.call('del', KEYS[1])
  receivers = redis.pcall('publish', ARGV[3], ARGV[4])
end
if not wasHeld then
  return nil
end
return type(receivers) == 'number' and receivers or -1
