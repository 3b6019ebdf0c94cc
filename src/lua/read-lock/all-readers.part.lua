-- include read-lock/read-holds

-- More than any lease, ms.
local FOREVER = 9007199254740991

-- Whether a field of a lock is a reader, and not `except`.
local function isReader(field, count, except)
  local canRead = field ~= except and string.sub(field, -6) ~= ':write' and string.find(field, ':', 1, true)
  return canRead and holdCount(count) > 0
end

-- How long the longest hold of all readers but `except` lasts, ms; below 0 if none is left. Looks at 16 holds, and at up to
-- 100 unless one of them lasts two thirds of `left`, which is left of the lock: then it need not be shortened, as holds
-- that are renewed last that long. Also returns what it has seen: 'all'; 'some', and others still read, or may; or
-- 'dead': only readers that died, and more may be left. And readers whose holds have all ended: they died.
local function longestReadOfAll(lock, prefix, except, left)
  local enough = left < 0 and FOREVER or left * 2 / 3
  local longest, scanned, dead, cursor, seen = -2, 0, {}, '', 'all'
  while cursor ~= '0' do
    local page = redis.call('hscan', lock, cursor == '' and '0' or cursor, 'count', 20)
    cursor = page[1]
    for n = 1, #page[2], 2 do
      local reader, count = page[2][n], page[2][n + 1]
      if isReader(reader, count, except) then
        if scanned >= MAX_SCANNED or scanned > 16 and longest >= enough then
          return longest, longest < 0 and #dead > 0 and 'dead' or 'some', dead
        end
        local lasts, read = longestRead(prefix, reader, count, FOREVER, MAX_SCANNED)
        scanned = scanned + read
        longest = math.max(longest, lasts)
        if lasts < 0 and read == holdCount(count) then
          table.insert(dead, reader)
        elseif lasts < 0 then
          seen = 'some'
        end
      end
    end
  end
  return longest, seen, dead
end

-- Removes readers that died.
local function removeReaders(lock, dead)
  if #dead > 0 then
    redis.call('hdel', lock, unpack(dead))
  end
end
