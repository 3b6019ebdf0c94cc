--[[ latch/set-count: close the latch with a count, if it is open. Once, however often it is sent, and not when it comes
     late.
     KEYS[1] latch      string: what is left to count
     KEYS[2] receipts   hash: operation -> its reply
     ARGV[1] count      > 0
     ARGV[2] channel    where waiters listen
     ARGV[3] message    that there is a new count
     ARGV[4] operation  its number
     ARGV[5] openedAt   when it was opened, epoch ms
     Reply   integer    1 done, 0 it is closed already
             array      it came too late: the time, epoch ms
     Source  RedissonCountDownLatch.trySetCountAsync ]]
-- include receipts/keep
-- include receipts/once
return once(KEYS[2], ARGV[4], ARGV[5], function()
  if redis.call('exists', KEYS[1]) == 1 then
    return 0
  end
  redis.call('set', KEYS[1], ARGV[1])
  redis.pcall('publish', ARGV[2], ARGV[3])
  return 1
end)
