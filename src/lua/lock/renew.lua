--[[ lock/renew: renew many locks, each only if its owner still holds it. Never shortens a lease.
     KEYS[n] lock         hash: holder -> hold count
     ARGV[2n-1] holder       "<client id>:<owner id>"
     ARGV[2n]   leaseTimeMs  ms, > 0
     Reply   array        for each lock: what is left of its lease, ms; 0 no longer this owner's
     Source  LockTask.renewSlots: same rule and same effect ]]
local renewed = {}
for n, lock in ipairs(KEYS) do
  -- protected: one key that somebody overwrote with another type must not cost all the others their renewal
  local mine = redis.pcall('hexists', lock, ARGV[2 * n - 1])
  if mine == 1 then
    local left, lease = redis.call('pttl', lock), tonumber(ARGV[2 * n])
    if left < lease then
      redis.call('pexpire', lock, ARGV[2 * n])
      left = lease
    end
    renewed[n] = left
  elseif mine == 0 or string.find(mine.err, 'WRONGTYPE', 1, true) then
    renewed[n] = 0
  else
    return mine
  end
end
return renewed
