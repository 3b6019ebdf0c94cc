--[[ semaphore/drain-permits: take all permits that there are; a debt is forgiven. Once, however often it is sent.
     KEYS[1] semaphore  string: available permits
     KEYS[2] receipts   hash: operation -> what it answered
     ARGV[1] operation  its number
     Reply   integer    how many there were
     Source  RedissonSemaphore.drainPermitsAsync ]]
-- include numbers/number-at
-- include receipts/once
return once(KEYS[2], ARGV[1], function()
  local available = numberAt(KEYS[1])
  if available ~= 0 then
    -- keeps the expiry of the semaphore
    redis.call('decrby', KEYS[1], available)
  end
  return available
end)
