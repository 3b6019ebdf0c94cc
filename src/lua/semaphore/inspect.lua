--[[ semaphore/inspect: how many permits there are.
     KEYS[1] semaphore  string: available permits
     Reply   integer    available permits, 0 if there is no such semaphore
     Source  RedissonSemaphore.availablePermitsAsync ]]
-- include numbers/number-at
return numberAt(KEYS[1])
