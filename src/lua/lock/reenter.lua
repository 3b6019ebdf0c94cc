--[[ lock/reenter: raise the hold count of an owner to a given number, and make the lease last at least as long as
     asked. Unlike Redisson's, it never shortens the lease that the outer hold relies on.
     KEYS[1] lock         hash: holder -> hold count
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] holder       "<client id>:<owner id>"
     ARGV[3] count        the resulting hold count, > 1
     Reply   integer      1 done, 0 this owner does not hold the lock
     Source  RedissonLock.tryLockInnerAsync, its second branch ]]
-- include lock/set-hold-count
return setHoldCount(KEYS[1], ARGV[1], ARGV[2], ARGV[3])
