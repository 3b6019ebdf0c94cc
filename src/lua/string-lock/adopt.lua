--[[ string-lock/adopt: take over a possession that another client handed over, with a lease from now. Only one can.
     KEYS[1] lock         string: the holder
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] from         the holder to take over from
     ARGV[3] holder       who takes over, "<client id>:<owner id>"
     Reply   nil          taken over
             integer      0: `from` does not hold the lock ]]
local present = redis.call('get', KEYS[1])
if present ~= ARGV[2] and present ~= ARGV[3] then
  return 0
end
redis.call('set', KEYS[1], ARGV[3], 'px', ARGV[1])
return nil
