--[[ semaphore/set-permits: create the semaphore if there is none. Runs once, however many copies arrive, and not at
     all if it arrives late.
     KEYS[1] semaphore     string: available permits
     KEYS[2] replies       hash: operation -> stored reply
     KEYS[3] generation    string: which semaphore of this name it is; the semaphore itself, if permits have ids
     ARGV[1] permits       >= 0
     ARGV[2] timeToLiveMs  ms; 0: it does not expire
     ARGV[3] channel       the waiters' channel
     ARGV[4] operation     its number
     ARGV[5] openedAt      when it was opened, epoch ms
     Reply   integer       1 created, 0 it existed
             array         it arrived too late: the time, epoch ms
     Source  RedissonSemaphore.trySetPermitsAsync; of permit expirable semaphores: the same ]]
-- include idempotency/run-once
-- include semaphore/announce-permits
-- include semaphore/generation
return runOnce(KEYS[2], ARGV[4], ARGV[5], function()
  if redis.call('exists', KEYS[1]) == 1 then
    return 0
  end
  if ARGV[2] == '0' then
    redis.call('set', KEYS[1], ARGV[1])
  else
    redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2])
  end
  startGeneration(KEYS[3], tonumber(ARGV[2]))
  announcePermits(ARGV[3], tonumber(ARGV[1]))
  return 1
end)
