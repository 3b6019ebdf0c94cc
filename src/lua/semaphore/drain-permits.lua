--[[ semaphore/drain-permits: take all permits that there are; a debt is forgiven. Once, however often it is sent, and not
     when it comes late.
     KEYS[1] semaphore  string: available permits
     KEYS[2] receipts   hash: operation -> its reply
     ARGV[1] operation  its number
     ARGV[2] openedAt   when it was opened, epoch ms
     Reply   integer    how many there were
             array      it came too late: the time, epoch ms
     Source  RedissonSemaphore.drainPermitsAsync ]]
-- include numbers/number-at
-- include receipts/keep
-- include receipts/once
return once(KEYS[2], ARGV[1], ARGV[2], function()
  local available = numberAt(KEYS[1])
  if available ~= 0 then
    -- keeps the expiry of the semaphore
    redis.call('decrby', KEYS[1], available)
  end
  return available
end)
