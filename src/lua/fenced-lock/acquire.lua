--[[ fenced-lock/acquire: take the lock for an owner that does not hold it, with the next fencing token. Run twice it
     answers the same token.
     KEYS[1] lock         hash: holder -> hold count
     KEYS[2] tokens       string: the last token given out; never expires
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] holder       "<client id>:<owner id>"
     ARGV[3] seen         the highest token that the caller knows of, 0 for none
     Reply   array        refused: "0", lease left to the present holder, ms (-1: no expiry)
                          granted: "1", the token, and the last token before if that had gone back behind `seen`
     Source  RedissonFencedLock.tryLockInnerAsync: same keys ]]
-- include fenced-lock/next-token
if redis.call('exists', KEYS[1]) == 1 then
  local left = redis.call('pttl', KEYS[1])
  if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
    return { '0', left }
  end
  if left < tonumber(ARGV[1]) then
    redis.call('pexpire', KEYS[1], ARGV[1])
  end
  -- nobody can have drawn another one since
  local token = redis.call('get', KEYS[2])
  if token then
    return { '1', token, '' }
  end
  local drawn = nextToken(KEYS[2], ARGV[3])
  return { '1', drawn[1], drawn[2] }
end
local drawn = nextToken(KEYS[2], ARGV[3])
redis.call('hset', KEYS[1], ARGV[2], 1)
local expires = redis.pcall('pexpire', KEYS[1], ARGV[1])
if type(expires) == 'table' then
  -- as lock/acquire
  redis.call('del', KEYS[1])
  return expires
end
return { '1', drawn[1], drawn[2] }
