-- include read-lock/read-holds

-- How long the longest hold of all readers but `except` lasts, ms; below 0 if none is left. Removes readers whose holds
-- have all ended: they died. Looks at 100 holds at most, and stops as soon as the lock, which lasts `left`, need not
-- be shortened: at a hold that lasts as long, or after 16 holds at one that lasts two thirds of that, as those that are
-- renewed do. Also returns what it has looked at: 'all'; 'some', and others still read, or may; 'dead': only readers
-- that died, and more may be left.
local function longestReadOfAll(lock, prefix, except, left)
  local enough = left < 0 and 9007199254740991 or left
  local longest, looks, removed, cursor, looked = -2, 0, 0, '', 'all'
  while cursor ~= '0' do
    local page = redis.call('hscan', lock, cursor == '' and '0' or cursor, 'count', 20)
    cursor = page[1]
    for n = 1, #page[2], 2 do
      local reader, count = page[2][n], page[2][n + 1]
      local canRead = reader ~= 'mode' and reader ~= except and string.sub(reader, -6) ~= ':write'
      if canRead and holdCount(count) > 0 then
        if looks >= MOST_LOOKS then
          return longest, longest < 0 and removed > 0 and 'dead' or 'some'
        end
        local lasts, read = longestRead(prefix, reader, count, enough, MOST_LOOKS)
        looks = looks + read
        longest = math.max(longest, lasts)
        if longest >= enough or looks > 16 and longest * 3 >= enough * 2 then
          return longest, 'some'
        elseif lasts < 0 and read == holdCount(count) then
          removed = removed + redis.call('hdel', lock, reader)
        elseif lasts < 0 then
          looked = 'some'
        end
      end
    end
  end
  return longest, looked
end
