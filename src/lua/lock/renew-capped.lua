--[[ lock/renew-capped: like lock/renew, but cuts a lease that is longer than its owner ever requested: the clock of
     Redis was set back. Not part of lock/renew, since a late copy of that must not cut a lease that was requested
     since.
     KEYS[n] lock         hash: holder -> hold count
     ARGV[3n-2] holder       "<client id>:<owner id>"
     ARGV[3n-1] leaseTimeMs  ms, > 0
     ARGV[3n]   longestMs    the longest lease that the owner requested, ms
     Reply   array        as lock/renew ]]
-- include lock/renew-one
local renewed = {}
for n, key in ipairs(KEYS) do
  local KEYS = { key }
  local left = renewOne(KEYS[1], ARGV[3 * n - 2], ARGV[3 * n - 1], ARGV[3 * n])
  if type(left) == 'table' then
    return left
  end
  renewed[n] = left
end
return renewed
