--[[ semaphore/set-permits: create the semaphore if there is none. Once, however often it is sent.
     KEYS[1] semaphore     string: available permits
     KEYS[2] receipts      hash: operation -> what it answered
     ARGV[1] permits       >= 0
     ARGV[2] timeToLiveMs  ms; 0: it never ends by itself
     ARGV[3] channel       where waiters listen
     ARGV[4] operation     its number
     Reply   integer       1 created, 0 there was one
     Source  RedissonSemaphore.trySetPermitsAsync; permits that can expire: the same ]]
-- include receipts/once
-- include semaphore/announce
return once(KEYS[2], ARGV[4], function()
  if redis.call('exists', KEYS[1]) == 1 then
    return 0
  end
  if ARGV[2] == '0' then
    redis.call('set', KEYS[1], ARGV[1])
  else
    redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2])
  end
  announce(ARGV[3], tonumber(ARGV[1]))
  return 1
end)
