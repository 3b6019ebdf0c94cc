--[[ latch/delete: delete the latch, which opens it, and notify waiters.
     KEYS[1] latch    string: the count
     ARGV[1] channel  the waiters' channel
     ARGV[2] message  that it is open; Redisson says that there is a new count, which keeps its waiters waiting
     Reply   integer  1 it was closed, 0 it was open
     Source  RedissonCountDownLatch.deleteAsync ]]
-- include numbers/integer-at
-- as in semaphore/delete
integerAt(KEYS[1])
if redis.call('del', KEYS[1]) == 0 then
  return 0
end
-- No other message: Redisson 3.14 may receive two in the wrong order.
redis.pcall('publish', ARGV[1], ARGV[2])
return 1
