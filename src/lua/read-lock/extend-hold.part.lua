-- Makes one hold last at least as long as requested.
local function extendHold(key, lease)
  if redis.call('pttl', key) < lease then
    redis.call('set', key, 1, 'px', lease)
  end
end
