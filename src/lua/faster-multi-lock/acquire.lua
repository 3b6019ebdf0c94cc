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
local group, lease, holder = KEYS[1], tonumber(ARGV[1]), ARGV[2]
local fields = redis.call('hlen', group)
if fields == 1 or fields > 1 and (redis.call('pttl', group) == -1 or redis.call('hexists', group, 'mode') == 1) then
  -- a group has at least two fields, and always an expiry
  return redis.error_reply('WRONGTYPE the hash is not a group of values: a lock of another kind, or data')
end
local longest, expiries, last = 0, {}, {}
for n = 3, #ARGV do
  local owner, expiry, before = ownerOf(group, ARGV[n])
  if owner and owner ~= holder then
    longest = math.max(longest, expiry - now)
  end
  expiries[n] = expiry
  last[n] = before
end
if longest > 0 then
  -- also one of Redisson, which has no such slack
  outlive(group, longest)
  return longest
end
for n = 3, #ARGV do
  local value = ARGV[n]
  local prefix = value .. ':' .. holder
  if expiries[n] then
    extendValue(group, value, holder, lease, expiries[n])
  else
    if last[n] then
      redis.call('hdel', group, value .. ':' .. last[n] .. ':expire_time', value .. ':' .. last[n] .. ':lock_count')
    end
    local expires = string.format('%d', now + lease)
    redis.call('hset', group, value, holder, prefix .. ':expire_time', expires, prefix .. ':lock_count', 1)
  end
end
outlive(group, lease)
return nil
