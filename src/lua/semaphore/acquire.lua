--[[ semaphore/acquire: take permits if there are enough. Once, however often it is sent.
     KEYS[1] semaphore  string: available permits
     KEYS[2] receipts   hash: operation -> what it answered
     ARGV[1] permits    > 0
     ARGV[2] operation  its number
     Reply   integer    1 acquired, 0 refused
     Source  RedissonSemaphore.tryAcquireAsync ]]
-- include numbers/number-at
-- include receipts/once
local available = numberAt(KEYS[1])
if available < tonumber(ARGV[1]) and redis.call('hexists', KEYS[2], ARGV[2]) == 0 then
  return 0
end
return once(KEYS[2], ARGV[2], function()
  redis.call('decrby', KEYS[1], ARGV[1])
  return 1
end)
