--[[ semaphore/release: give permits back, and tell those who wait. Once, however often it is sent.
     KEYS[1] semaphore  string: available permits
     KEYS[2] receipts   hash: operation -> what it answered
     ARGV[1] permits    > 0
     ARGV[2] mustExist  1: not if there is no such semaphore
     ARGV[3] channel    where waiters listen
     ARGV[4] operation  its number
     Reply   integer    how many connections heard it; -1 publishing was refused, -2 there is no such semaphore
     Source  RedissonSemaphore.releaseAsync, releaseIfExistsAsync ]]
-- include receipts/once
-- include receipts/insist
-- include semaphore/announce
return once(KEYS[2], ARGV[4], function()
  if ARGV[2] == '1' and redis.call('exists', KEYS[1]) == 0 then
    return -2
  end
  insist(KEYS[2])
  return announce(ARGV[3], redis.call('incrby', KEYS[1], ARGV[1]))
end)
