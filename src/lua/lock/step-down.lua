--[[ lock/step-down: lower the hold count of an owner that goes on holding, and see to it that its other holds have the
     lease they need. Never shortens: a copy of this that comes late must not cut a lease that was asked for since.
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
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[1]) then
  redis.call('pexpire', KEYS[1], ARGV[1])
end
return 1
