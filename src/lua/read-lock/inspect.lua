--[[ read-lock/inspect: who reads or writes, how often, and for how long. Leaves out readers whose holds have ended.
     KEYS[1] lock         hash: mode -> read or write, reader -> hold count, "<writer>:write" -> hold count
     ARGV[1] prefix       what the keys of read holds begin with
     Reply   array        PTTL of the lock (-2: free, -1: no expiry), then holder, hold count, holder, hold count … ]]
-- include read-lock/read-holds
local found = { redis.call('pttl', KEYS[1]) }
if not redis.call('hget', KEYS[1], 'mode') then
  -- free, or a lock of another kind
  return found
end
local fields = redis.call('hgetall', KEYS[1])
for n = 1, #fields, 2 do
  local holder, count = fields[n], fields[n + 1]
  local isWriter = string.sub(holder, -6) == ':write'
  if isWriter or (holder ~= 'mode' and longestRead(ARGV[1], holder, count) > 0) then
    table.insert(found, holder)
    table.insert(found, count)
  end
end
return found
