--[[ faster-multi-lock/set-count: set the hold count of an owner for all its values, and make its lease last at least as
     long as requested.
     KEYS[1] group        hash, as in faster-multi-lock/acquire
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] holder       "<client id>:<owner id>"
     ARGV[3] count        the resulting hold count, > 0
     ARGV[4…] values      their digests
     Reply   integer      1 done, 0 this owner does not hold them all ]]
-- include faster-multi-lock/values
local lease, expiries = tonumber(ARGV[1]), {}
for n = 4, #ARGV do
  local owner, expiry = ownerOf(KEYS[1], ARGV[n])
  if owner ~= ARGV[2] then
    return 0
  end
  table.insert(expiries, expiry)
end
for n = 4, #ARGV do
  redis.call('hset', KEYS[1], ARGV[n] .. ':' .. ARGV[2] .. ':lock_count', ARGV[3])
  extendValue(KEYS[1], ARGV[n], ARGV[2], lease, expiries[n - 3])
end
outlive(KEYS[1], lease)
return 1
