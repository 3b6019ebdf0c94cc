--[[ latch/count-down: count one down; at zero the latch opens, and waiters are notified. Once, however often it is sent, and not when
     it comes late.
     KEYS[1] latch      string: what is left to count
     KEYS[2] receipts   hash: operation -> its reply
     ARGV[1] channel    where waiters listen
     ARGV[2] message    that it is open
     ARGV[3] operation  its number
     ARGV[4] openedAt   when it was opened, epoch ms
     Reply   integer    what is left to count now; -1 it opened, but publishing was refused
             array      it came too late: the time, epoch ms
     Source  RedissonCountDownLatch.countDownAsync ]]
-- include receipts/keep
-- include receipts/once
return once(KEYS[2], ARGV[3], ARGV[4], function()
  keep(KEYS[2])
  if redis.call('exists', KEYS[1]) == 0 then
    return 0
  end
  local count = redis.call('decr', KEYS[1])
  if count > 0 then
    return count
  end
  redis.call('del', KEYS[1])
  return type(redis.pcall('publish', ARGV[1], ARGV[2])) == 'number' and 0 or -1
end)
