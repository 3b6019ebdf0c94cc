-- The key of one read hold of a reader.
local function readHold(prefix, reader, index)
  return prefix .. reader .. ':rwlock_timeout:' .. index
end

-- How long the longest of a reader's holds lasts, ms; below 0 if none is left. `count` is its hold count.
local function longestRead(prefix, reader, count)
  local longest = -2
  for index = 1, tonumber(count) or 0 do
    longest = math.max(longest, redis.call('pttl', readHold(prefix, reader, index)))
  end
  return longest
end

-- The same for all readers of a lock. Those of whom nothing is left are forgotten: they died.
local function longestReadOfAll(lock, prefix)
  local longest = -2
  local fields = redis.call('hgetall', lock)
  for n = 1, #fields, 2 do
    local reader, count = fields[n], fields[n + 1]
    if reader ~= 'mode' and string.sub(reader, -6) ~= ':write' then
      local left = longestRead(prefix, reader, count)
      if left < 0 then
        redis.call('hdel', lock, reader)
      end
      longest = math.max(longest, left)
    end
  end
  return longest
end
