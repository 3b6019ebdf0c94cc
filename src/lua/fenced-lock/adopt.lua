--[[ fenced-lock/adopt: take over the lease that another client transferred, as one hold with a lease from now and the
     next fencing token, so that later writes of the previous holder are rejected. Idempotent.
     KEYS[1] lock         hash: holder -> hold count
     KEYS[2] tokens       string: the last fencing token; never expires
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] from         the previous holder, "<client id>:<owner id>"
     ARGV[3] holder       the next one, "<client id>:<owner id>"
     ARGV[4] seen         the highest token that this client has seen, 0 for none
     Expires late, it takes nothing
     Reply   array        as fenced-lock/acquire; refused means that `from` does not hold the lock ]]
-- include lease/extend
-- include fenced-lock/next-token
if redis.call('hexists', KEYS[1], ARGV[3]) == 1 then
  -- as in lock/adopt
  extendLease(KEYS[1], ARGV[1])
  local drawn = repeatToken(KEYS[2], ARGV[4])
  return { '1', drawn[1], drawn[2] }
end
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 or redis.call('hexists', KEYS[1], 'mode') == 1 then
  return { '0', 0 }
end
local drawn = nextToken(KEYS[2], ARGV[4])
redis.call('hset', KEYS[1], ARGV[3], 1)
redis.call('hdel', KEYS[1], ARGV[2])
redis.call('pexpire', KEYS[1], ARGV[1])
return { '1', drawn[1], drawn[2] }
