--[[ lock/adopt: go on with a possession that another client handed over: one hold, with a lease from now.
     KEYS[1] lock         hash: holder -> hold count
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] holder       "<client id>:<owner id>", as the other client spelled it
     Reply   integer      1 adopted, 0 that holder does not hold the lock ]]
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
  return 0
end
redis.call('hset', KEYS[1], ARGV[2], 1)
redis.call('pexpire', KEYS[1], ARGV[1])
return 1
