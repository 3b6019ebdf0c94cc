--[[ latch/count-down: count one down; at zero the latch opens, and those who wait are told. Once, however often it is sent.
     KEYS[1] latch      string: what is left to count
     KEYS[2] receipts   hash: operation -> what it answered
     ARGV[1] channel    where waiters listen
     ARGV[2] message    that it is open
     ARGV[3] operation  its number
     Reply   integer    what is left to count now; -1 it opened, but publishing was refused
     Source  RedissonCountDownLatch.countDownAsync ]]
-- include receipts/once
-- include receipts/insist
return once(KEYS[2], ARGV[3], function()
  if redis.call('exists', KEYS[1]) == 0 then
    return 0
  end
  insist(KEYS[2])
  local count = redis.call('decr', KEYS[1])
  if count > 0 then
    return count
  end
  redis.call('del', KEYS[1])
  return type(redis.pcall('publish', ARGV[1], ARGV[2])) == 'number' and 0 or -1
end)
