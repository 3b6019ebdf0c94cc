--[[ lock/force-release: free the lock, whoever holds it, and wake the waiters.
     KEYS[1] lock         hash: holder -> hold count
     ARGV[1] channel      the waiters' channel; empty: none
     ARGV[2] message      what wakes them
     Reply   integer      1 it was held, 0 it was free
     Source  RedissonLock.forceUnlockAsync ]]
-- include lock/delete-lock
local isDeleted, reply = deleteLock(KEYS[1])
if not isDeleted then
  return reply
end
if ARGV[1] ~= '' then
  redis.pcall('publish', ARGV[1], ARGV[2])
end
return 1
