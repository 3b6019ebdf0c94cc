--[[ lock/renew: renew many locks, each only if its owner still holds it. Never shortens a lease.
     KEYS[n] lock         hash: holder -> hold count
     ARGV[2n-1] holder       "<client id>:<owner id>"
     ARGV[2n]   leaseTimeMs  ms, > 0
     Reply   array        for each lock: what is left of its lease, ms; 0 this owner no longer holds it
     Source  LockTask.renewSlots: same rule and same effect ]]
-- include lock/renew-one
local renewed = {}
for n, key in ipairs(KEYS) do
  local KEYS = { key }
  local left = renewOne(KEYS[1], ARGV[2 * n - 1], ARGV[2 * n])
  if type(left) == 'table' then
    return left
  end
  renewed[n] = left
end
return renewed
