--[[ latch/count-down: decrement the count; at zero the latch opens, and waiters are notified. Runs once, however many
     copies arrive, and not at all if it arrives late.
     KEYS[1] latch      string: the count
     KEYS[2] replies    hash: operation -> stored reply
     ARGV[1] channel    the waiters' channel
     ARGV[2] message    that it is open
     ARGV[3] operation  its number
     ARGV[4] openedAt   when it was opened, epoch ms
     Reply   integer    the resulting count; -1 it opened, but publishing was refused
             array      it arrived too late: the time, epoch ms
     Source  RedissonCountDownLatch.countDownAsync ]]
-- include idempotency/run-once
return runOnce(KEYS[2], ARGV[3], ARGV[4], function()
  keepReplies(KEYS[2])
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
