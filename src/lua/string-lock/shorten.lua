--[[ string-lock/shorten: end the lease of an owner after a given time, if it would last longer. Never extends it.
     KEYS[1] lock         string: the holder
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] holder       "<client id>:<owner id>"
     Reply   integer      1 done, 0 this owner does not hold the lock ]]
-- include lease/cut
if redis.call('get', KEYS[1]) ~= ARGV[2] then
  return 0
end
cutLease(KEYS[1], tonumber(ARGV[1]))
return 1
