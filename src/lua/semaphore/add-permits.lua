--[[ semaphore/add-permits: change the number of permits by some, and notify waiters. Once, however often it is sent, and not
     when it comes late.
     KEYS[1] semaphore   string: available permits
     KEYS[2] receipts    hash: operation -> its reply
     KEYS[3] generation  string: which semaphore of this name it is; the semaphore itself, if permits have ids
     ARGV[1] permits     how many more; below 0: fewer
     ARGV[2] channel     where waiters listen
     ARGV[3] operation   its number
     ARGV[4] openedAt    when it was opened, epoch ms
     Reply   integer     the available permits now
             array       it came too late: the time, epoch ms
     Source  RedissonSemaphore.addPermitsAsync ]]
-- include receipts/keep
-- include receipts/once
-- include semaphore/announce
-- include semaphore/generation
return once(KEYS[2], ARGV[3], ARGV[4], function()
  local isNew = redis.call('exists', KEYS[1]) == 0
  -- keeps the expiry of the semaphore
  local available = redis.call('incrby', KEYS[1], ARGV[1])
  if isNew then
    beginGeneration(KEYS[3], 0)
  end
  if tonumber(ARGV[1]) > 0 then
    announce(ARGV[2], available)
  end
  return available
end)
