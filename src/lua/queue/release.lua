--[[ queue/release: end a hold of an ordered lock, plain or read-write, and offer the lock to the first waiters. Waiters
     that are not queued get the message of an ordinary release. Removes a waiter as well, offered the lock or not.
     KEYS[1] lock         hash: holder -> hold count; of a read-write lock also mode -> read or write
     KEYS[2] queue        sorted set: waiting holder -> its place
     KEYS[3] clients      sorted set: client -> until when it is believed to be alive, epoch ms
     ARGV[1] holder       "<client id>:<owner id>", and ":write" after it for the exclusive side
     ARGV[2] prefix       what the keys of read holds begin with; empty: a plain lock
     ARGV[3] inboxPrefix  what the clients' channels begin with
     ARGV[4] channel      the channel of waiters that are not queued
     ARGV[5] message      what wakes them
     ARGV[6] watchChannel where those who only watch the lock listen as well
     Reply   nil          this owner does not hold the lock, or its holds had ended
             integer      released; how many of them received the message (-1: publishing was refused)
             "unfinished" there is more to do than one call does: call again
     Source  none; the lock's key is that of RedissonLock, RedissonReadLock and RedissonWriteLock ]]
-- include time/now
-- include queue/grant
-- include read-lock/end-read
-- include write-lock/end-write
local holder, prefix = ARGV[1], ARGV[2]
local wasHeld, change
if prefix == '' then
  wasHeld = redis.call('hdel', KEYS[1], holder) == 1 or nil
elseif isAlone(prefix, holder) then
  wasHeld = endWrite(KEYS[1], prefix, holder)
else
  local wasRead, became = endRead(KEYS[1], prefix, holder)
  wasHeld = wasRead
  change = became
end
if wasHeld == 'unfinished' then
  return wasHeld
elseif wasHeld == nil then
  local wasFirst = redis.call('zrange', KEYS[2], 0, 0)[1] == holder
  redis.call('zrem', KEYS[2], holder)
  if not wasFirst then
    return nil
  end
end
local now, receivers = epochMs(), 0
if change or wasHeld and isAlone(prefix, holder) then
  receivers = redis.pcall('publish', ARGV[4], ARGV[5])
end
endRun(KEYS[2], KEYS[3], receivers, ARGV[6], now)
grant(KEYS[1], KEYS[2], KEYS[3], prefix, ARGV[3], now)
if not wasHeld then
  return nil
end
return type(receivers) == 'number' and receivers or -1
