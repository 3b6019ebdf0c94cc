--[[ faster-multi-lock/force-release: free values whoever holds them, and wake the waiters of the group.
     KEYS[1] group        hash, as in faster-multi-lock/acquire
     ARGV[1] channel      where waiters listen
     ARGV[2] message      what wakes them
     ARGV[3…] fields      the digests of the values
     Reply   integer      1 any was held, 0 all were free
     Source  RedissonFasterMultiLock.forceUnlockAsync ]]
-- include numbers/whole
-- include faster-multi-lock/fields
local held = 0
for n = 3, #ARGV do
  if ownerOf(KEYS[1], ARGV[n]) then
    held = 1
  end
  forget(KEYS[1], ARGV[n])
end
if held == 1 then
  redis.pcall('publish', ARGV[1], ARGV[2])
end
return held
