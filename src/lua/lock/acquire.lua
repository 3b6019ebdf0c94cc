--[[ lock/acquire: take the lock for an owner that does not hold it, or say how long the present lease has left.
     Runs twice without harm, also late: what the owner has by then is never lowered or shortened.
     KEYS[1] lock         hash: holder -> hold count
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] holder       "<client id>:<owner id>"
     Reply   nil          acquired
             integer      lease left to the present holder, ms (-1: no expiry)
     Source  RedissonLock.tryLockInnerAsync: same key, field and reply ]]
-- include lock/take
return take(KEYS[1], ARGV[1], ARGV[2])
