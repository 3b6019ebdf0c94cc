--[[ read-lock/inspect: who reads or writes, how often, and for how long: one of our owners, and some of the others.
     Leaves out readers whose holds have ended.
     KEYS[1] lock         hash: mode -> read or write, reader -> hold count, "<writer>:write" -> hold count
     ARGV[1] prefix       what the keys of read holds begin with
     ARGV[2] cursor       from which others on: "0", or as replied; empty: no others
     ARGV[3] holder       "<client id>:<owner id>", or with ":write" after it; empty: none
     Reply   array        PTTL of the lock (-2: free, -1: no expiry); the next cursor, "0" at the end; how many hold it at
                          most; then holder, hold count, holder, hold count … ]]
-- include read-lock/read-holds
local prefix, cursor = ARGV[1], ARGV[2]
local found = { redis.call('pttl', KEYS[1]), '0', 0 }
if not redis.call('hget', KEYS[1], 'mode') then
  -- free, or a lock of another kind
  return found
end
found[3] = redis.call('hlen', KEYS[1]) - 1
local scanned = 0

-- Adds a holder, unless all its holds have ended, as far as this call scans.
local function add(holder, count)
  local isHeld = string.sub(holder, -6) == ':write'
  if not isHeld and holder ~= 'mode' then
    local lasts, read = longestRead(prefix, holder, count, 1, LEASED_HOLDS)
    scanned = scanned + read
    isHeld = lasts > 0 or holdCount(count) > read
  end
  if isHeld then
    table.insert(found, holder)
    table.insert(found, count)
  end
end

local own = ARGV[3] ~= '' and redis.call('hget', KEYS[1], ARGV[3])
if own then
  add(ARGV[3], own)
end
if cursor ~= '' then
  found[2] = cursor
end
while cursor ~= '' and scanned < MAX_SCANNED do
  local page = redis.call('hscan', KEYS[1], cursor, 'count', 50)
  cursor = page[1]
  found[2] = cursor
  for n = 1, #page[2], 2 do
    if page[2][n] ~= ARGV[3] then
      add(page[2][n], page[2][n + 1])
    end
  end
  if cursor == '0' then
    break
  end
end
return found
