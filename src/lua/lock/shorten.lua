--[[ lock/shorten: end the lease of an owner after a given time, if it would last longer. Never extends it, so that a late
     copy does nothing. Leaves a write lock alone whose writer also reads: its reads end with the hash.
     KEYS[1] lock         hash: holder -> hold count; of a write lock, mode -> "write" besides
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] holder       "<client id>:<owner id>"
     Reply   integer      1 done, 0 this owner does not hold the lock ]]
-- include lease/cut
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
  return 0
end
if redis.call('hlen', KEYS[1]) <= 2 then
  cutLease(KEYS[1], tonumber(ARGV[1]))
end
return 1
