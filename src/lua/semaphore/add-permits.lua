--[[ semaphore/add-permits: change the number of permits by a difference, and notify waiters. Runs once, however many
     copies arrive, and not at all if it arrives late.
     KEYS[1] semaphore   string: available permits
     KEYS[2] replies     hash: operation -> stored reply
     KEYS[3] generation  string: which semaphore of this name it is; the semaphore itself, if permits have ids
     ARGV[1] permits     the difference; below 0: fewer
     ARGV[2] channel     the waiters' channel
     ARGV[3] operation   its number
     ARGV[4] openedAt    when it was opened, epoch ms
     Reply   integer     the resulting number of available permits
             array       it arrived too late: the time, epoch ms
     Source  RedissonSemaphore.addPermitsAsync ]]
-- include idempotency/run-once
-- include semaphore/announce-permits
-- include semaphore/generation
return runOnce(KEYS[2], ARGV[3], ARGV[4], function()
  local isNew = redis.call('exists', KEYS[1]) == 0
  -- keeps the expiry of the semaphore
  local available = redis.call('incrby', KEYS[1], ARGV[1])
  if isNew then
    startGeneration(KEYS[3], 0)
  end
  if tonumber(ARGV[1]) > 0 then
    announcePermits(ARGV[2], available)
  end
  return available
end)
