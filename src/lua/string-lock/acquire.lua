--[[ string-lock/acquire: take the lock for an owner that does not hold it, or return how long the current lease has
     left. Idempotent.
     KEYS[1] lock         string: the holder
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] holder       "<client id>:<owner id>"
     Expires late, it takes nothing
     Reply   nil          acquired
             integer      what is left of the current lease, ms (-1: no expiry)
     Source  the pattern of https://redis.io/commands/set: SET key value NX PX ]]
local current = redis.call('get', KEYS[1])
if not current then
  redis.call('set', KEYS[1], ARGV[2], 'px', ARGV[1])
  return nil
end
local left = redis.call('pttl', KEYS[1])
if current ~= ARGV[2] then
  return left
end
if left < tonumber(ARGV[1]) then
  redis.call('pexpire', KEYS[1], ARGV[1])
end
return nil
