-- The integer at a key, 0 if there is no such key. Any other text is somebody's data, or damaged: an error like
-- INCRBY's.
local function integerAt(key)
  local text = redis.call('get', key) or '0'
  if #text > 16 or not string.find(text, '^%-?%d+$') then
    error('the value at "' .. key .. '" is not an integer or out of range', 0)
  end
  return tonumber(text)
end
