--[[ semaphore/inspect: how many permits are available.
     KEYS[1] semaphore  string: available permits
     Reply   integer    available permits, 0 if there is no such semaphore
     Source  RedissonSemaphore.availablePermitsAsync ]]
-- include numbers/integer-at
return integerAt(KEYS[1])
