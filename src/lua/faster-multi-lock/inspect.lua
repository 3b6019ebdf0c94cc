--[[ faster-multi-lock/inspect: who holds any of some values, how often, and for how long.
     KEYS[1] group        hash, as in faster-multi-lock/acquire
     ARGV[1…] fields      the digests of the values
     Reply   array        ms left of the longest lease (-2: free), then holder, hold count, how many of the values it
                          has, holder … ]]
-- include numbers/whole
-- include faster-multi-lock/fields
local found, seen = { -2 }, {}
for n = 1, #ARGV do
  local owner, expiry, count = ownerOf(KEYS[1], ARGV[n])
  if owner then
    found[1] = math.max(found[1], expiry - now)
    if not seen[owner] then
      table.insert(found, owner)
      table.insert(found, count or '1')
      table.insert(found, 0)
      seen[owner] = #found
    end
    found[seen[owner]] = found[seen[owner]] + 1
  end
end
return found
