--[[ latch/inspect: the count.
     KEYS[1] latch    string: the count
     Reply   integer  0: it is open
     Source  RedissonCountDownLatch.getCountAsync ]]
-- include numbers/integer-at
return integerAt(KEYS[1])
