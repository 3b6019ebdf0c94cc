--[[ latch/set-count: close the latch with a count, if it is open. Runs once, however many copies arrive, and not at
     all if it arrives late.
     KEYS[1] latch      string: the count
     KEYS[2] replies    hash: operation -> stored reply
     ARGV[1] count      > 0
     ARGV[2] channel    the waiters' channel
     ARGV[3] message    that there is a new count
     ARGV[4] operation  its number
     ARGV[5] openedAt   when it was opened, epoch ms
     Reply   integer    1 done, 0 it is already closed
             array      it arrived too late: the time, epoch ms
     Source  RedissonCountDownLatch.trySetCountAsync ]]
-- include idempotency/run-once
return runOnce(KEYS[2], ARGV[4], ARGV[5], function()
  if redis.call('exists', KEYS[1]) == 1 then
    return 0
  end
  redis.call('set', KEYS[1], ARGV[1])
  redis.pcall('publish', ARGV[2], ARGV[3])
  return 1
end)
