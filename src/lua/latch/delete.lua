--[[ latch/delete: delete the latch, which opens it, and tell those who wait.
     KEYS[1] latch    string: what is left to count
     ARGV[1] channel  where waiters listen
     ARGV[2] message  that it is open; Redisson says that there is a new count, and makes its waiters stay
     Reply   integer  1 it was closed, 0 it was open
     Source  RedissonCountDownLatch.deleteAsync ]]
-- include numbers/number-at
-- as semaphore/delete
numberAt(KEYS[1])
if redis.call('del', KEYS[1]) == 0 then
  return 0
end
-- Nothing but this: Redisson 3.14 may hear two messages in the wrong order.
redis.pcall('publish', ARGV[1], ARGV[2])
return 1
