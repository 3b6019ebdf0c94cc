--[[ string-lock/extend: make the lease of an owner last at least as long as requested.
     KEYS[1] lock         string: the holder
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] holder       "<client id>:<owner id>"
     Reply   integer      1 done, 0 this owner does not hold the lock ]]
-- include lease/extend
if redis.call('get', KEYS[1]) ~= ARGV[2] then
  return 0
end
extendLease(KEYS[1], ARGV[1])
return 1
