-- The next fencing token, as text: always higher than the last, and than `seen`. Tokens are compared as decimal text, as
-- Lua's numbers are exact to 2^53 only. Answers whether the counter had to be raised because it had gone back, too.
local function nextToken(tokens, seen)
  local last = redis.call('get', tokens) or '0'
  local isBehind = #last < #seen or (#last == #seen and last < seen)
  if isBehind then
    redis.call('set', tokens, seen)
  end
  redis.call('incr', tokens)
  return { redis.call('get', tokens), isBehind and last or '' }
end
