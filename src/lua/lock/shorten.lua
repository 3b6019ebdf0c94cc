--[[ lock/shorten: end the lease of an owner after a given time, if it would last longer. Never extends it, so that a late
     copy does nothing.
     KEYS[1] lock         hash: holder -> hold count
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] holder       "<client id>:<owner id>"
     Reply   integer      1 done, 0 this owner does not hold the lock ]]
-- include lease/cut
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
  return 0
end
cutLease(KEYS[1], tonumber(ARGV[1]))
return 1
