--[[ faster-multi-lock/acquire: take several values of a group for one owner, all or none, or return how long the
     longest lease of another owner has left. Idempotent. All times are the server's.
     KEYS[1] group        hash: value -> holder, "<value>:<holder>:expire_time" -> epoch ms,
                          "<value>:<holder>:lock_count" -> hold count; the values as digests
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] holder       "<client id>:<owner id>"
     ARGV[3…] values      their digests
     Expires late, it takes nothing
     Reply   nil          acquired
             integer      what is left of other owners' leases, ms
     Source  RedissonFasterMultiLock.tryLockInnerAsync: same key and fields ]]
-- include faster-multi-lock/values
local lease, holder = tonumber(ARGV[1]), ARGV[2]
local fields = redis.call('hlen', KEYS[1])
if fields == 1 or fields > 1 and (redis.call('pttl', KEYS[1]) == -1 or redis.call('hexists', KEYS[1], 'mode') == 1) then
  -- a group has at least two fields, and always an expiry
  return redis.error_reply('WRONGTYPE the hash is not a group of values: a lock of another kind, or data')
end
local longest, expiries, last = 0, {}, {}
for n = 3, #ARGV do
  local owner, expiry, before = ownerOf(KEYS[1], ARGV[n])
  if owner and owner ~= holder then
    longest = math.max(longest, expiry - now)
  end
  expiries[n] = expiry
  last[n] = before
end
if longest > 0 then
  -- also one of Redisson, which has no such slack
  outlive(KEYS[1], longest)
  return longest
end
for n = 3, #ARGV do
  local value = ARGV[n]
  local prefix = value .. ':' .. holder
  if expiries[n] then
    extendValue(KEYS[1], value, holder, lease, expiries[n])
  else
    if last[n] then
      redis.call('hdel', KEYS[1], value .. ':' .. last[n] .. ':expire_time', value .. ':' .. last[n] .. ':lock_count')
    end
    local expires = string.format('%d', now + lease)
    redis.call('hset', KEYS[1], value, holder, prefix .. ':expire_time', expires, prefix .. ':lock_count', 1)
  end
end
outlive(KEYS[1], lease)
return nil
