--[[ semaphore/set-permits: create the semaphore if there is none. Once, however often it is sent, and not when it comes late.
     KEYS[1] semaphore     string: available permits
     KEYS[2] receipts      hash: operation -> its reply
     KEYS[3] generation    string: which semaphore of this name it is; the semaphore itself, if permits have ids
     ARGV[1] permits       >= 0
     ARGV[2] timeToLiveMs  ms; 0: it never ends by itself
     ARGV[3] channel       where waiters listen
     ARGV[4] operation     its number
     ARGV[5] openedAt      when it was opened, epoch ms
     Reply   integer       1 created, 0 there was one
             array         it came too late: the time, epoch ms
     Source  RedissonSemaphore.trySetPermitsAsync; permits that can expire: the same ]]
-- include receipts/keep
-- include receipts/once
-- include semaphore/announce
-- include semaphore/generation
return once(KEYS[2], ARGV[4], ARGV[5], function()
  if redis.call('exists', KEYS[1]) == 1 then
    return 0
  end
  if ARGV[2] == '0' then
    redis.call('set', KEYS[1], ARGV[1])
  else
    redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2])
  end
  beginGeneration(KEYS[3], tonumber(ARGV[2]))
  announce(ARGV[3], tonumber(ARGV[1]))
  return 1
end)
