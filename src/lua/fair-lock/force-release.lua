--[[ fair-lock/force-release: free the lock whoever holds it, and wake the first in the queue.
     KEYS[1] lock           hash: holder -> hold count
     KEYS[2] queue          list: waiting holders, the next one first
     ARGV[1] channelPrefix  where waiters listen, without the holder
     ARGV[2] message        what wakes them
     Reply   integer        1 it was held, 0 it was free
     Source  RedissonFairLock.forceUnlockAsync ]]
-- include lock/only-holder
-- include fair-lock/wake-first
if redis.call('type', KEYS[1]).ok ~= 'hash' then
  -- as lock/force-release
  return redis.call('hlen', KEYS[1])
end
if not hasOnlyHolder(KEYS[1]) then
  return redis.error_reply(NO_LOCK)
end
redis.call('del', KEYS[1])
wakeFirst(KEYS[2], ARGV[1], ARGV[2])
return 1
