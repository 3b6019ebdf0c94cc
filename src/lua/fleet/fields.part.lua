-- include read-lock/read-holds
-- include fleet/entries

-- Maximum number of readers' holds to scan in one call: Redis serves nobody else meanwhile.
local MAX_READ = 400

-- Whether a field is a reader of which no hold is left, and how many holds were scanned.
local function hasStoppedReading(mode, prefix, field, count)
  if not hasMode(mode) or string.sub(field, -6) == ':write' then
    return false, 0
  end
  local lasts, scanned = longestRead(prefix, field, count, 1, LEASED_HOLDS)
  return lasts < 0 and scanned > 0 and scanned == holdCount(count), scanned
end

-- The fields of a lock and their values, as many as one call scans, the mode first, and without readers of whom no hold
-- is left. Also returns whether that is all.
local function fieldsOf(lock, mode, prefix)
  local fields, most, scanned, cursor = {}, 6 * MAX_ENTRIES, 0, ''
  if mode then
    fields = { 'mode', cut(mode) }
    most = 2 * MAX_ENTRIES + 4
  end
  while cursor ~= '0' do
    local page = redis.call('hscan', lock, cursor == '' and '0' or cursor, 'count', 100)
    cursor = page[1]
    for n = 1, #page[2], 2 do
      if #fields >= most or scanned > MAX_READ then
        return fields, false
      end
      local hasStopped, read = hasStoppedReading(mode, prefix, page[2][n], page[2][n + 1])
      scanned = scanned + read
      if not hasStopped and page[2][n] ~= 'mode' then
        table.insert(fields, cut(page[2][n]))
        table.insert(fields, cut(page[2][n + 1]))
      end
    end
  end
  return fields, true
end
