-- The key of one read hold of a reader.
local function readHold(prefix, reader, index)
  return prefix .. reader .. ':rwlock_timeout:' .. index
end

-- The most holds of one reader. Each has a key, so a higher count (an epoch, say), which only something else can have
-- written, would keep Redis busy for minutes.
local MAX_HOLDS = 10000
-- Maximum number of holds to scan, or delete, in one call: Redis serves nobody else meanwhile.
local MAX_SCANNED = 100
-- How many holds of a reader have the lease of the reader, at least. Holds are deleted from the last one down, so the
-- first ones are enough.
local LEASED_HOLDS = 20

-- The hold count that a field of the lock spells; 0 if it spells none.
local function holdCount(text)
  local count = tonumber(text) or 0
  return count >= 1 and count <= MAX_HOLDS and math.floor(count) or 0
end

-- How long the longest of a reader's holds lasts, ms; below 0 if none is left. Stops at one that lasts `enough`, and
-- after `most` holds. `count` is its hold count, as text. Also returns how many it scanned.
local function longestRead(prefix, reader, count, enough, most)
  local longest, scanned = -2, math.min(holdCount(count), most)
  for index = 1, scanned do
    local KEYS = { readHold(prefix, reader, index) }
    longest = math.max(longest, redis.call('pttl', KEYS[1]))
    if longest >= enough then
      return longest, index
    end
  end
  return longest, scanned
end

-- Whether an owner of ours reads, according to its holds.
local function isReading(prefix, reader, count)
  return longestRead(prefix, reader, count, 1, LEASED_HOLDS) > 0
end
