--[[ web-locks/list: names of the locks of `client.locks`, those that were requested last first. Changes nothing.
     KEYS[1] names        sorted set: lock -> when its entry expires, epoch ms
     ARGV[1] skipped      how many to skip
     ARGV[2] most         how many to return, > 0
     Reply   array        the names; empty: there are no more ]]
-- include time/now
local listed = redis.call('zcount', KEYS[1], string.format('%d', epochMs()), '+inf')
local skipped = tonumber(ARGV[1])
local last = math.min(listed, skipped + tonumber(ARGV[2]))
if last <= skipped then
  return {}
end
-- Counted from the end: entries are renewed to the end, so that a page may repeat names of the one before, but misses none.
return redis.call('zrange', KEYS[1], string.format('%d', -last), string.format('%d', -skipped - 1))
