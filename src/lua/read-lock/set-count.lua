--[[ read-lock/set-count: set the hold count of a reader, and make its last hold and its first ones last at least as long as
     requested. Never shortens a lease.
     KEYS[1] lock         hash: mode -> read or write, reader -> hold count, "<writer>:write" -> hold count
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] holder       "<client id>:<owner id>"
     ARGV[3] count        the resulting hold count, > 0
     ARGV[4] prefix       what the keys of read holds begin with
     Reply   integer      1 done, 0 this owner does not hold the lock
     Source  RedissonReadLock.tryLockInnerAsync and unlockInnerAsync, for an owner that already reads ]]
-- include lease/extend
-- include read-lock/read-holds
-- include read-lock/extend-hold
local lease, holder, count = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local before = redis.call('hget', KEYS[1], holder)
if not before or not isReading(ARGV[4], holder, before) then
  return 0
end
if count > MAX_HOLDS then
  return redis.error_reply('ERR one reader can hold a lock ' .. MAX_HOLDS .. ' times at most')
end
-- DEL first, which a Redis without memory never refuses: so a count can always be lowered
for index = count + 1, math.min(holdCount(before), count + MAX_SCANNED) do
  local KEYS = { readHold(ARGV[4], holder, index) }
  redis.call('del', KEYS[1])
end
for index = 1, math.min(count, LEASED_HOLDS) do
  extendHold(ARGV[4], holder, index, lease)
end
extendHold(ARGV[4], holder, count, lease)
redis.call('hset', KEYS[1], holder, count)
extendLease(KEYS[1], lease)
return 1
