--[[ lock/force-release: free the lock whoever holds it, and wake the waiters.
     KEYS[1] lock         hash: holder -> hold count
     ARGV[1] channel      where waiters listen; empty: nowhere
     ARGV[2] message      what wakes them
     Reply   integer      1 it was held, 0 it was free
     Source  RedissonLock.forceUnlockAsync ]]
-- include lock/only-holder
if redis.call('type', KEYS[1]).ok ~= 'hash' then
  -- a key of another type is somebody's data: let HLEN name it in a WRONGTYPE error, and leave it alone
  return redis.call('hlen', KEYS[1])
end
if not hasOnlyHolder(KEYS[1]) then
  return redis.error_reply(NO_LOCK)
end
redis.call('del', KEYS[1])
if ARGV[1] ~= '' then
  redis.pcall('publish', ARGV[1], ARGV[2])
end
return 1
