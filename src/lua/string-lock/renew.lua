--[[ string-lock/renew: renew many locks, each only if its owner still holds it. Never shortens a lease.
     KEYS[n] lock         string: the holder
     ARGV[2n-1] holder       "<client id>:<owner id>"
     ARGV[2n]   leaseTimeMs  ms, > 0
     Reply   array        for each lock: 1 renewed, 0 no longer this owner's ]]
local renewed = {}
for n, lock in ipairs(KEYS) do
  -- protected as in lock/renew
  local present = redis.pcall('get', lock)
  if type(present) == 'table' and not string.find(present.err, 'WRONGTYPE', 1, true) then
    return present
  end
  renewed[n] = present == ARGV[2 * n - 1] and 1 or 0
  if renewed[n] == 1 and redis.call('pttl', lock) < tonumber(ARGV[2 * n]) then
    redis.call('pexpire', lock, ARGV[2 * n])
  end
end
return renewed
