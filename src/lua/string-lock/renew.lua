--[[ string-lock/renew: renew many locks, each only if its owner still holds it. Never shortens a lease.
     KEYS[n] lock         string: the holder
     ARGV[2n-1] holder       "<client id>:<owner id>"
     ARGV[2n]   leaseTimeMs  ms, > 0
     Reply   array        for each lock: 1 renewed, 0 this owner no longer holds it ]]
-- include lease/extend
local renewed = {}
for n, key in ipairs(KEYS) do
  local KEYS = { key }
  -- protected, as in lock/renew
  local current = redis.pcall('get', KEYS[1])
  if type(current) == 'table' and not string.find(current.err, 'WRONGTYPE', 1, true) then
    return current
  end
  renewed[n] = current == ARGV[2 * n - 1] and 1 or 0
  if renewed[n] == 1 then
    extendLease(KEYS[1], ARGV[2 * n])
  end
end
return renewed
