-- include read-lock/read-holds

-- Makes one hold of a reader last at least as long as requested.
local function extendHold(prefix, reader, index, lease)
  local KEYS = { readHold(prefix, reader, index) }
  if redis.call('pttl', KEYS[1]) < lease then
    redis.call('set', KEYS[1], 1, 'px', lease)
  end
end
