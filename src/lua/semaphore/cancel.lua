--[[ semaphore/cancel: give back what an acquire took whose caller is gone; if it did not come yet, it will take nothing.
     KEYS[1] semaphore  string: available permits
     KEYS[2] receipts   hash: operation -> what it answered
     ARGV[1] permits    what it asked for
     ARGV[2] operation  the number of the acquire
     ARGV[3] channel    where waiters listen
     Reply   integer    1 it had taken them, 0 it had not ]]
-- include receipts/once
-- include receipts/insist
-- include semaphore/announce
insist(KEYS[2])
local taken = once(KEYS[2], ARGV[2], function()
  return 0
end)
if taken == 1 then
  announce(ARGV[3], redis.call('incrby', KEYS[1], ARGV[1]))
  redis.call('hset', KEYS[2], ARGV[2], 0)
end
return taken
