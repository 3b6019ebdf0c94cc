--[[ lock/adopt: take over the lease that another client transferred, as one hold with a lease from now. Only one client
     can: it replaces the holder's field, which Redisson sees as an uninterrupted hold. Idempotent.
     KEYS[1] lock         hash: holder -> hold count
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] from         the previous holder, "<client id>:<owner id>"
     ARGV[3] holder       the next one, "<client id>:<owner id>"
     Expires late, it takes nothing
     Reply   nil          taken over
             integer      0: `from` does not hold the lock ]]
-- include lease/extend
if redis.call('hexists', KEYS[1], ARGV[3]) == 1 then
  -- a late copy must not cut a lease that was requested since
  extendLease(KEYS[1], ARGV[1])
  return nil
end
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 or redis.call('hexists', KEYS[1], 'mode') == 1 then
  return 0
end
-- HSET first: Redis may refuse it for lack of memory
redis.call('hset', KEYS[1], ARGV[3], 1)
redis.call('hdel', KEYS[1], ARGV[2])
redis.call('pexpire', KEYS[1], ARGV[1])
return nil
