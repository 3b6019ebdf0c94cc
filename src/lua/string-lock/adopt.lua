--[[ string-lock/adopt: take over a lease that another client handed over, with a lease from now. Only one can.
     Runs twice without harm, also late.
     KEYS[1] lock         string: the holder
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] from         the holder to take over from
     ARGV[3] holder       who takes over, "<client id>:<owner id>"
     Reply   nil          taken over
             integer      0: `from` does not hold the lock ]]
local present = redis.call('get', KEYS[1])
if present == ARGV[3] then
  -- as lock/adopt
  if redis.call('pttl', KEYS[1]) < tonumber(ARGV[1]) then
    redis.call('pexpire', KEYS[1], ARGV[1])
  end
  return nil
end
if present ~= ARGV[2] then
  return 0
end
redis.call('set', KEYS[1], ARGV[3], 'px', ARGV[1])
return nil
