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
-- include write-lock/end-write
local ended = endWrite(KEYS[1], ARGV[2], ARGV[1])
if ended ~= true then
  return ended
end
local receivers = redis.pcall('publish', ARGV[3], ARGV[4])
return type(receivers) == 'number' and receivers or -1
