-- The key of one read hold of a reader.
local function readHold(prefix, reader, index)
  return prefix .. reader .. ':rwlock_timeout:' .. index
end

-- The most holds of one reader. Each has a key, so a higher count (an epoch, say), which only something else can have
-- written, would keep Redis busy for minutes.
local MOST_HOLDS = 10000

-- The hold count that a field of the lock spells; 0 if it spells none.
local function holdCount(text)
  local count = tonumber(text) or 0
  return count >= 1 and count <= MOST_HOLDS and math.floor(count) or 0
end

-- How long the longest of a reader's holds lasts, ms; below 0 if none is left. `count` is its hold count, as text.
local function longestRead(prefix, reader, count)
  local longest = -2
  for index = 1, holdCount(count) do
    longest = math.max(longest, redis.call('pttl', readHold(prefix, reader, index)))
  end
  return longest
end
