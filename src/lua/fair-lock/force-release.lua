--[[ fair-lock/force-release: free the lock, whoever holds it, and wake the first in the queue.
     KEYS[1] lock           hash: holder -> hold count
     KEYS[2] queue          list: waiting holders, the next one first
     ARGV[1] channelPrefix  what the waiters' channels begin with, before the holder
     ARGV[2] message        what wakes them
     Reply   integer        1 it was held, 0 it was free
     Source  RedissonFairLock.forceUnlockAsync ]]
-- include lock/delete-lock
-- include fair-lock/wake-first
local isDeleted, reply = deleteLock(KEYS[1])
if not isDeleted then
  return reply
end
wakeFirst(KEYS[2], ARGV[1], ARGV[2])
return 1
