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
-- include read-lock/end-read
local wasHeld, change = endRead(KEYS[1], ARGV[2], ARGV[1])
if wasHeld == nil or wasHeld == 'unfinished' then
  return wasHeld
end
local receivers = 0
if change then
  receivers = redis.pcall('publish', ARGV[3], ARGV[4])
end
if not wasHeld then
  return nil
elseif change ~= 'free' then
  return 0
end
return type(receivers) == 'number' and receivers or -1
