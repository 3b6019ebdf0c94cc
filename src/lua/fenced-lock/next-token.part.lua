-- Draws the next fencing token, as text: higher than the last one, and than the highest seen. Tokens are compared as
-- decimal text, since Lua's numbers are exact to 2^53 only.
-- Returns it, and the last one before if the counter had gone back behind `seen` and was raised, else ''.
local function nextToken(tokens, seen)
  local last = redis.call('get', tokens) or '0'
  local isBehind = #last < #seen or (#last == #seen and last < seen)
  if isBehind then
    redis.call('set', tokens, seen)
  end
  redis.call('incr', tokens)
  return { redis.call('get', tokens), isBehind and last or '' }
end
