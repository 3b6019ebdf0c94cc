--[[ latch/delete: delete the latch, which opens it, and tell those who wait.
     KEYS[1] latch       string: what is left to count
     ARGV[1] channel     where waiters listen
     ARGV[2] newCount    what Redisson says of a deleted latch, and makes its waiters stay
     ARGV[3] open        that it is open: then they ask, and go
     Reply   integer     1 it was closed, 0 it was open
     Source  RedissonCountDownLatch.deleteAsync ]]
if redis.call('del', KEYS[1]) == 0 then
  return 0
end
redis.pcall('publish', ARGV[1], ARGV[2])
redis.pcall('publish', ARGV[1], ARGV[3])
return 1
