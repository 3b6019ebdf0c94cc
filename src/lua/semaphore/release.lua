--[[ semaphore/release: give permits back, and notify waiters. Once, however often it is sent, and not when it comes late.
     KEYS[1] semaphore   string: available permits
     KEYS[2] receipts    hash: operation -> its reply
     KEYS[3] generation  string: which semaphore of this name it is
     ARGV[1] permits     > 0
     ARGV[2] into        create: any semaphore, and one is created if there is none; any: any that is there; else the
                         generation that they were taken from
     ARGV[3] channel     where waiters listen
     ARGV[4] operation   its number
     ARGV[5] openedAt    when it was opened, epoch ms
     Reply   integer     how many connections heard it; -1 publishing was refused, -2 there is no such semaphore
             array       it came too late: the time, epoch ms
     Source  RedissonSemaphore.releaseAsync, releaseIfExistsAsync ]]
-- include receipts/keep
-- include receipts/once
-- include semaphore/announce
-- include semaphore/generation
return once(KEYS[2], ARGV[4], ARGV[5], function()
  keep(KEYS[2])
  local exists = redis.call('exists', KEYS[1]) == 1
  local id = tonumber(ARGV[2])
  if ARGV[2] ~= 'create' and not exists or id and not isStill(KEYS[3], id) then
    return -2
  end
  local available = redis.call('incrby', KEYS[1], ARGV[1])
  if not exists then
    beginGeneration(KEYS[3], 0)
  end
  return announce(ARGV[3], available)
end)
