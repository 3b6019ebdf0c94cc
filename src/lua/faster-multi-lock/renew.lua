--[[ faster-multi-lock/renew: renew the values of many holders, each only if it still has them all. Never shortens a
     lease.
     KEYS[n] group        hash, as in faster-multi-lock/acquire
     ARGV[n] holder       for each group "<client id>:<owner id>", leaseTimeMs (ms, > 0), how many values, their digests
     Reply   array        for each group: 1 renewed, 0 this owner no longer holds them all
     Source  FastMultilockTask: same effect ]]
-- include faster-multi-lock/values
local renewed = {}
local last = 0
for n, key in ipairs(KEYS) do
  local KEYS = { key }
  local holder, lease, first = ARGV[last + 1], tonumber(ARGV[last + 2]), last + 4
  last = last + 3 + tonumber(ARGV[last + 3])
  -- checked first: a key that somebody overwrote with another type must not cost all other groups their renewal
  renewed[n] = redis.call('type', KEYS[1]).ok == 'hash' and 1 or 0
  local expiries = {}
  for m = first, renewed[n] == 1 and last or 0 do
    local owner, expiry = ownerOf(KEYS[1], ARGV[m])
    if owner ~= holder then
      renewed[n] = 0
      break
    end
    table.insert(expiries, expiry)
  end
  if renewed[n] == 1 then
    -- PEXPIRE first, as in read-lock/renew
    local left = redis.call('pttl', KEYS[1])
    redis.call('pexpire', KEYS[1], math.max(left, lease + SLACK))
  end
  for m = first, renewed[n] == 1 and last or 0 do
    extendValue(KEYS[1], ARGV[m], holder, lease, expiries[m - first + 1])
  end
end
return renewed
