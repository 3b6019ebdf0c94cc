--[[ faster-multi-lock/renew: renew the values of many holders, each only if it still has them all. Never shortens a
     lease.
     KEYS[n] group        hash, as in faster-multi-lock/acquire
     ARGV[n] holder       for each group "<client id>:<owner id>", leaseTimeMs (ms, > 0), how many values, their digests
     Reply   array        for each group: 1 renewed, 0 this owner no longer holds them all
     Source  FastMultilockTask: same effect ]]
-- include faster-multi-lock/values
local renewed = {}
local last = 0
for n, group in ipairs(KEYS) do
  local holder, lease, first = ARGV[last + 1], tonumber(ARGV[last + 2]), last + 4
  last = last + 3 + tonumber(ARGV[last + 3])
  -- checked first: a key that somebody overwrote with another type must not cost all other groups their renewal
  renewed[n] = redis.call('type', group).ok == 'hash' and 1 or 0
  local expiries = {}
  for m = first, renewed[n] == 1 and last or 0 do
    local owner, expiry = ownerOf(group, ARGV[m])
    if owner ~= holder then
      renewed[n] = 0
      break
    end
    table.insert(expiries, expiry)
  end
  if renewed[n] == 1 then
    -- PEXPIRE first, as in read-lock/renew
    redis.call('pexpire', group, math.max(redis.call('pttl', group), lease + SLACK))
  end
  for m = first, renewed[n] == 1 and last or 0 do
    extendValue(group, ARGV[m], holder, lease, expiries[m - first + 1])
  end
end
return renewed
