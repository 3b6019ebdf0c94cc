--[[ latch/inspect: what is left to count.
     KEYS[1] latch    string: what is left to count
     Reply   integer  0: it is open
     Source  RedissonCountDownLatch.getCountAsync ]]
-- include numbers/number-at
return numberAt(KEYS[1])
