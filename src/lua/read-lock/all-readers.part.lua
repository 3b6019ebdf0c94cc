-- include read-lock/read-holds

-- How long the longest hold of all readers of a lock lasts, ms; below 0 if none is left. Removes readers whose holds
-- have all ended: they died.
local function longestReadOfAll(lock, prefix)
  local longest = -2
  local fields = redis.call('hgetall', lock)
  for n = 1, #fields, 2 do
    local reader, count = fields[n], fields[n + 1]
    if reader ~= 'mode' and string.sub(reader, -6) ~= ':write' and holdCount(count) > 0 then
      local left = longestRead(prefix, reader, count)
      if left < 0 then
        redis.call('hdel', lock, reader)
      end
      longest = math.max(longest, left)
    end
  end
  return longest
end
