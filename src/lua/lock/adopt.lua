--[[ lock/adopt: take over a possession that another client handed over, as one hold with a lease from now. Only one
     can: the holder's field is replaced, which peers see as an uninterrupted hold. Runs twice without harm.
     KEYS[1] lock         hash: holder -> hold count
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] from         the holder to take over from, "<client id>:<owner id>"
     ARGV[3] holder       who takes over, "<client id>:<owner id>"
     Reply   nil          taken over
             integer      0: `from` does not hold the lock ]]
if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then
  if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
    return 0
  end
  -- first the command that may be refused for want of memory
  redis.call('hset', KEYS[1], ARGV[3], 1)
  redis.call('hdel', KEYS[1], ARGV[2])
end
redis.call('pexpire', KEYS[1], ARGV[1])
return nil
