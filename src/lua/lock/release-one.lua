--[[ lock/release-one: lower the hold count of an owner that keeps the lock, and make the lease last at least as long as
     its other holds need. Never shortens the lease: a late copy must not cut one that was requested since.
     KEYS[1] lock         hash: holder -> hold count
     ARGV[1] leaseTimeMs  ms, > 0: what the remaining holds are entitled to
     ARGV[2] holder       "<client id>:<owner id>"
     ARGV[3] count        the resulting hold count, > 0
     Reply   integer      1 done, 0 this owner does not hold the lock
     Source  RedissonLock.unlockInnerAsync, counter > 0 ]]
-- include lock/set-hold-count
return setHoldCount(KEYS[1], ARGV[1], ARGV[2], ARGV[3])
