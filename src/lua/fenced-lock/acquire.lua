--[[ fenced-lock/acquire: take the lock for an owner that does not hold it, with the next fencing token. Idempotent: a
     repeat returns the same token.
     KEYS[1] lock         hash: holder -> hold count
     KEYS[2] tokens       string: the last fencing token; never expires
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] holder       "<client id>:<owner id>"
     ARGV[3] seen         the highest token that this client has seen, 0 for none
     Expires late, it takes nothing
     Reply   array        refused: "0", what is left of the current lease, ms (-1: no expiry)
                          granted: "1", the token, and the last one before if the counter had gone back behind `seen`
     Source  RedissonFencedLock.tryLockInnerAsync: same keys ]]
-- include lease/create-lock
-- include fenced-lock/next-token
if redis.call('exists', KEYS[1]) == 1 then
  local left = redis.call('pttl', KEYS[1])
  if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
    return { '0', left }
  end
  if left < tonumber(ARGV[1]) then
    redis.call('pexpire', KEYS[1], ARGV[1])
  end
  local drawn = repeatToken(KEYS[2], ARGV[3])
  return { '1', drawn[1], drawn[2] }
end
local drawn = nextToken(KEYS[2], ARGV[3])
local refused = createLock(KEYS[1], ARGV[1], ARGV[2], 1)
return refused or { '1', drawn[1], drawn[2] }
