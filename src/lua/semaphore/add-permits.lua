--[[ semaphore/add-permits: change the number of permits by some, and tell those who wait. Once, however often it is sent.
     KEYS[1] semaphore  string: available permits
     KEYS[2] receipts   hash: operation -> what it answered
     ARGV[1] permits    how many more; below 0: fewer
     ARGV[2] channel    where waiters listen
     ARGV[3] operation  its number
     Reply   integer    the available permits now
     Source  RedissonSemaphore.addPermitsAsync ]]
-- include receipts/once
-- include semaphore/announce
return once(KEYS[2], ARGV[3], function()
  -- keeps the expiry of the semaphore
  local available = redis.call('incrby', KEYS[1], ARGV[1])
  if tonumber(ARGV[1]) > 0 then
    announce(ARGV[2], available)
  end
  return available
end)
