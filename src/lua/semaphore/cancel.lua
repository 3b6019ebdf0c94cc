--[[ semaphore/cancel: undo an acquire whose caller is gone: give back what it took, if that semaphore is still there. If it
     did not come yet, it will take nothing.
     KEYS[1] semaphore   string: available permits
     KEYS[2] receipts    hash: operation -> its reply
     KEYS[3] generation  string: which semaphore of this name it is
     ARGV[1] permits     what it asked for
     ARGV[2] operation   the number of the acquire
     ARGV[3] channel     where waiters listen
     Reply   integer     1 given back, 0 there was nothing to give back ]]
-- include receipts/keep
-- include semaphore/announce
-- include semaphore/generation
local taken = tonumber(redis.call('hget', KEYS[2], ARGV[2]) or 0)
local isOwed = taken ~= 0 and redis.call('exists', KEYS[1]) == 1 and isStill(KEYS[3], taken)
keep(KEYS[2])
redis.call('hset', KEYS[2], ARGV[2], 0)
keep(KEYS[2])
if not isOwed then
  return 0
end
announce(ARGV[3], redis.call('incrby', KEYS[1], ARGV[1]))
return 1
