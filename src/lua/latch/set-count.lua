--[[ latch/set-count: close the latch with a count, if it is open. Once, however often it is sent.
     KEYS[1] latch      string: what is left to count
     KEYS[2] receipts   hash: operation -> what it answered
     ARGV[1] count      > 0
     ARGV[2] channel    where waiters listen
     ARGV[3] message    that there is a new count
     ARGV[4] operation  its number
     Reply   integer    1 done, 0 it is closed already
     Source  RedissonCountDownLatch.trySetCountAsync ]]
-- include receipts/once
return once(KEYS[2], ARGV[4], function()
  if redis.call('exists', KEYS[1]) == 1 then
    return 0
  end
  redis.call('set', KEYS[1], ARGV[1])
  redis.pcall('publish', ARGV[2], ARGV[3])
  return 1
end)
