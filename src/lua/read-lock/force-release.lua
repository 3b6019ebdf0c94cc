--[[ read-lock/force-release: free a lock that is held in one mode, whoever holds it, and wake the waiters.
     KEYS[1] lock         hash: mode -> read or write, reader -> hold count, "<writer>:write" -> hold count
     ARGV[1] mode         "read" or "write"
     ARGV[2] prefix       what the keys of read holds begin with
     ARGV[3] channel      the waiters' channel
     ARGV[4] message      what wakes them
     Reply   integer      1 it was held in that mode, 0 it was not
     Source  RedissonReadLock.forceUnlockAsync, RedissonWriteLock.forceUnlockAsync, which keep the read holds ]]
-- include read-lock/read-holds
if redis.call('hget', KEYS[1], 'mode') ~= ARGV[1] then
  return 0
end
local fields = redis.call('hgetall', KEYS[1])
for n = 1, #fields, 2 do
  for index = 1, holdCount(fields[n + 1]) do
    redis.call('del', readHold(ARGV[2], fields[n], index))
  end
end
redis.call('del', KEYS[1])
redis.pcall('publish', ARGV[3], ARGV[4])
return 1
