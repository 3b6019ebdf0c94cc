--[[ semaphore/drain-permits: take all available permits; a negative number is reset to 0. Runs once, however many
     copies arrive, and not at all if it arrives late.
     KEYS[1] semaphore  string: available permits
     KEYS[2] replies    hash: operation -> stored reply
     ARGV[1] operation  its number
     ARGV[2] openedAt   when it was opened, epoch ms
     Reply   integer    how many were available
             array      it arrived too late: the time, epoch ms
     Source  RedissonSemaphore.drainPermitsAsync ]]
-- include numbers/integer-at
-- include idempotency/run-once
return runOnce(KEYS[2], ARGV[1], ARGV[2], function()
  local available = integerAt(KEYS[1])
  if available ~= 0 then
    -- keeps the expiry of the semaphore
    redis.call('decrby', KEYS[1], available)
  end
  return available
end)
