--[[ lock/cut-lease: as lock/renew, but a lease that lasts longer than its owner ever asked for is cut: the clock of Redis
     was set back. Not part of lock/renew, of which a copy that comes late must not cut a lease that was asked for since.
     KEYS[n] lock         hash: holder -> hold count
     ARGV[3n-2] holder       "<client id>:<owner id>"
     ARGV[3n-1] leaseTimeMs  ms, > 0
     ARGV[3n]   longestMs    the longest lease that the owner asked for, ms
     Reply   array        as lock/renew ]]
local renewed = {}
for n, lock in ipairs(KEYS) do
  -- protected as in lock/renew
  local mine = redis.pcall('hexists', lock, ARGV[3 * n - 2])
  if mine == 1 then
    local left, lease = redis.call('pttl', lock), tonumber(ARGV[3 * n - 1])
    if left < lease or left > tonumber(ARGV[3 * n]) then
      redis.call('pexpire', lock, ARGV[3 * n - 1])
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
