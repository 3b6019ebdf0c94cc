--[[ lock/adopt: take over a lease that another client handed over, as one hold with a lease from now. Only one
     can: the holder's field is replaced, which peers see as an uninterrupted hold. Runs twice without harm.
     KEYS[1] lock         hash: holder -> hold count
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] from         the holder to take over from, "<client id>:<owner id>"
     ARGV[3] holder       who takes over, "<client id>:<owner id>"
     Reply   nil          taken over
             integer      0: `from` does not hold the lock ]]
if redis.call('hexists', KEYS[1], ARGV[3]) == 1 then
  -- a copy that comes late must not cut a lease that was asked for since
  if redis.call('pttl', KEYS[1]) < tonumber(ARGV[1]) then
    redis.call('pexpire', KEYS[1], ARGV[1])
  end
  return nil
end
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 or redis.call('hexists', KEYS[1], 'mode') == 1 then
  return 0
end
-- first the command that may be refused for want of memory
redis.call('hset', KEYS[1], ARGV[3], 1)
redis.call('hdel', KEYS[1], ARGV[2])
redis.call('pexpire', KEYS[1], ARGV[1])
return nil
