--[[ web-locks/read: who holds a read-write lock, and who waits for it in its queue. Changes nothing. At most 200 holders,
     as `fleet/read`.
     KEYS[1] lock         hash: mode -> read or write, reader -> hold count, "<writer>:write" -> hold count
     KEYS[2] queue        sorted set: waiting holder -> place, the next one first
     ARGV[1] prefix       what the keys of read holds begin with
     ARGV[2] mostWaiters  to return, > 0
     Reply   array        the fields and their values, without readers whose holds have ended; waiting holders ]]
-- include fleet/fields
local fields = {}
if redis.call('type', KEYS[1]).ok == 'hash' then
  local mode = redis.call('hget', KEYS[1], 'mode')
  if hasMode(mode) then
    fields = fieldsOf(KEYS[1], mode, ARGV[1])
  end
end
local waiting = unlessRefused(redis.pcall('zrange', KEYS[2], 0, string.format('%d', tonumber(ARGV[2]) - 1)))
return { fields, waiting or {} }
