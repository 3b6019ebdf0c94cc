-- The most entries of each kind in a reply, and the longest text of an entry, in bytes.
local MAX_ENTRIES = 200
local MAX_BYTES = 256

local function cut(text)
  return string.sub(text, 1, MAX_BYTES)
end

-- The reply of a command; nil if it was refused, or the key holds something else.
local function unlessRefused(reply)
  if type(reply) == 'table' and reply.err then
    return nil
  end
  return reply
end

-- The entries that LRANGE replied: the first ones of a list, and one more if there are more.
local function entriesOf(reply)
  local entries = {}
  for _, entry in ipairs(unlessRefused(reply) or {}) do
    table.insert(entries, cut(entry))
  end
  return entries
end

-- Whether it is the mode of a read-write lock.
local function hasMode(mode)
  return mode == 'read' or mode == 'write'
end

-- Whether a key is certainly no lock, so that nothing more is read: locks but those of one field have an expiry, or a mode,
-- and semaphores and latches are numbers.
local function isData(lock, kind, left)
  if kind == 'hash' then
    return left == -1 and redis.call('hlen', lock) > 1 and not hasMode(redis.call('hget', lock, 'mode'))
  elseif kind == 'string' then
    return left == -1 and not string.find(redis.call('get', lock), '^%-?%d+$')
  end
  return kind ~= 'none'
end

local function hexOf(bytes)
  return (string.gsub(bytes, '.', function(byte)
    return string.format('%02x', string.byte(byte))
  end))
end
