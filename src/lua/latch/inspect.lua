--[[ latch/inspect: what is left to count.
     KEYS[1] latch    string: what is left to count
     Reply   integer  0: it is open
     Source  RedissonCountDownLatch.getCountAsync ]]
return tonumber(redis.call('get', KEYS[1]) or 0)
