--[[ fenced-lock/token: the last fencing token.
     KEYS[1] tokens       string: the last fencing token; never expires
     Reply   array        the token; empty if there is none
     Source  RedissonFencedLock.getTokenAsync ]]
return { redis.call('get', KEYS[1]) or '' }
