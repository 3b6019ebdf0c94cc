--[[ faster-multi-lock/force-release: free values, whoever holds them, and wake the waiters of the group.
     KEYS[1] group        hash, as in faster-multi-lock/acquire
     ARGV[1] channel      the waiters' channel
     ARGV[2] message      what wakes them
     ARGV[3…] values      their digests
     Reply   integer      1 at least one was held, 0 all were free
     Source  RedissonFasterMultiLock.forceUnlockAsync ]]
-- include faster-multi-lock/values
local wasHeld = 0
for n = 3, #ARGV do
  if ownerOf(KEYS[1], ARGV[n]) then
    wasHeld = 1
  end
  deleteValue(KEYS[1], ARGV[n])
end
if wasHeld == 1 then
  redis.pcall('publish', ARGV[1], ARGV[2])
end
return wasHeld
