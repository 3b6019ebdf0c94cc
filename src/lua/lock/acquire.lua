--[[ lock/acquire: take the lock for an owner that does not hold it, or return how long the current lease has left.
     Idempotent, even if a copy arrives late: it never lowers the hold count or shortens the lease.
     KEYS[1] lock         hash: holder -> hold count
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] holder       "<client id>:<owner id>"
     Expires late, it takes nothing
     Reply   nil          acquired
             integer      what is left of the current lease, ms (-1: no expiry)
     Source  RedissonLock.tryLockInnerAsync: same key, field and reply ]]
-- include lock/take
return take(KEYS[1], ARGV[1], ARGV[2])
