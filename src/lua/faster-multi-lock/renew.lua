--[[ faster-multi-lock/renew: renew the same values for their holders, each only if it still has them all.
     KEYS[n] group        hash, as in faster-multi-lock/acquire
     ARGV[2n-1] holder       "<client id>:<owner id>"
     ARGV[2n]   leaseTimeMs  ms, > 0; after the last pair the digests of the values
     Reply   array        for each group: 1 renewed, 0 no longer this owner's
     Source  FastMultilockTask: same effect ]]
-- include faster-multi-lock/fields
local renewed = {}
for n, group in ipairs(KEYS) do
  local holder, lease = ARGV[2 * n - 1], tonumber(ARGV[2 * n])
  renewed[n] = 1
  for m = 2 * #KEYS + 1, #ARGV do
    if ownerOf(group, ARGV[m]) ~= holder then
      renewed[n] = 0
    end
  end
  for m = 2 * #KEYS + 1, renewed[n] == 1 and #ARGV or 0 do
    extend(group, ARGV[m], holder, lease)
  end
end
return renewed
