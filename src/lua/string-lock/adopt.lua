--[[ string-lock/adopt: take over the lease that another client transferred, with a lease from now. Only one client can.
     Idempotent, even if a copy arrives late.
     KEYS[1] lock         string: the holder
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] from         the previous holder
     ARGV[3] holder       the next one, "<client id>:<owner id>"
     Expires late, it takes nothing
     Reply   nil          taken over
             integer      0: `from` does not hold the lock ]]
-- include lease/extend
local current = redis.call('get', KEYS[1])
if current == ARGV[3] then
  -- as in lock/adopt
  extendLease(KEYS[1], ARGV[1])
  return nil
end
if current ~= ARGV[2] then
  return 0
end
redis.call('set', KEYS[1], ARGV[3], 'px', ARGV[1])
return nil
