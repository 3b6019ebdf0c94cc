--[[ semaphore/acquire: take permits if there are enough. Once, however often it is sent, and not when it comes late.
     KEYS[1] semaphore   string: available permits
     KEYS[2] receipts    hash: operation -> its reply
     KEYS[3] generation  string: which semaphore of this name it is
     ARGV[1] permits     > 0
     ARGV[2] operation   its number
     ARGV[3] openedAt    when it was opened, epoch ms
     Reply   integer     0 refused; acquired: the generation (1: not known)
             array       it came too late: the time, epoch ms
     Source  RedissonSemaphore.tryAcquireAsync ]]
-- include numbers/number-at
-- include receipts/keep
-- include receipts/once
-- include semaphore/generation
local available = numberAt(KEYS[1])
if available < tonumber(ARGV[1]) and redis.call('hexists', KEYS[2], ARGV[2]) == 0 then
  return 0
end
return once(KEYS[2], ARGV[2], ARGV[3], function()
  local id = currentGeneration(KEYS[3])
  local expiryMs = redis.call('pttl', KEYS[1])
  if expiryMs >= 0 and id > 0 then
    -- Redisson has created it.
    id = beginGeneration(KEYS[3], math.max(1, expiryMs))
  end
  redis.call('decrby', KEYS[1], ARGV[1])
  return id
end)
