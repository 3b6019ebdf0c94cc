--[[ faster-multi-lock/inspect: who holds any of some values, how often, and for how long.
     KEYS[1] group        hash, as in faster-multi-lock/acquire
     ARGV[1…] values      their digests
     Reply   array        what is left of the longest lease, ms (-2: free), then for each holder: holder, hold count,
                          how many of the values it has ]]
-- include faster-multi-lock/values
local found, countAt = { -2 }, {}
for n = 1, #ARGV do
  local owner, expiry = ownerOf(KEYS[1], ARGV[n])
  if owner then
    found[1] = math.max(found[1], expiry - now)
    if not countAt[owner] then
      table.insert(found, owner)
      table.insert(found, redis.call('hget', KEYS[1], ARGV[n] .. ':' .. owner .. ':lock_count') or '1')
      table.insert(found, 0)
      countAt[owner] = #found
    end
    found[countAt[owner]] = found[countAt[owner]] + 1
  end
end
return found
