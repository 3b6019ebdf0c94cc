--[[ fenced-lock/token: the last fencing token given out.
     KEYS[1] tokens       string: the last token given out; never expires
     Reply   array        the token, or empty
     Source  RedissonFencedLock.getTokenAsync ]]
return { redis.call('get', KEYS[1]) or '' }
