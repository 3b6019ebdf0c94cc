--[[ lock/step-down: lower the hold count of an owner that goes on holding, and set the lease its other holds need.
     KEYS[1] lock         hash: holder -> hold count
     ARGV[1] leaseTimeMs  ms, > 0: what the remaining holds are entitled to
     ARGV[2] holder       "<client id>:<owner id>"
     ARGV[3] count        the hold count this leads to, > 0
     Reply   integer      1 done, 0 this owner does not hold the lock
     Source  RedissonLock.unlockInnerAsync, counter > 0 ]]
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
  return 0
end
redis.call('hset', KEYS[1], ARGV[2], ARGV[3])
redis.call('pexpire', KEYS[1], ARGV[1])
return 1
