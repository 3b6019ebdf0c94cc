--[[ lock/cut-lease: as lock/renew, but a lease that lasts longer than its owner ever asked for is cut: the clock of Redis
     was set back. Not part of lock/renew, of which a copy that comes late must not cut a lease that was asked for since.
     KEYS[n] lock         hash: holder -> hold count
     ARGV[3n-2] holder       "<client id>:<owner id>"
     ARGV[3n-1] leaseTimeMs  ms, > 0
     ARGV[3n]   longestMs    the longest lease that the owner asked for, ms
     Reply   array        as lock/renew ]]
-- include lock/renew-one
local renewed = {}
for n, lock in ipairs(KEYS) do
  local left = renew_one(lock, ARGV[3 * n - 2], ARGV[3 * n - 1], ARGV[3 * n])
  if type(left) == 'table' then
    return left
  end
  renewed[n] = left
end
return renewed
