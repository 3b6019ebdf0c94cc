-- Whether a hash is a lock of one holder: the holder's field with a hold count, and nothing else.
local function hasOnlyHolder(lock)
  return redis.call('hlen', lock) == 1 and string.find(redis.call('hgetall', lock)[2], '^%d+$') ~= nil
end

local NO_LOCK = 'WRONGTYPE the hash is not a lock of this kind: a lock of another kind, or data'
