-- Whether a token is lower than another. They are compared as decimal text, since Lua's numbers are exact to 2^53 only.
local function isLowerToken(token, other)
  return #token < #other or (#token == #other and token < other)
end

-- Draws the next fencing token, as text: higher than the last one, and than the highest seen.
-- Returns it, and the last one before if the counter had gone back behind `seen` and was raised, else ''.
local function nextToken(tokens, seen)
  local last = redis.call('get', tokens) or '0'
  local isBehind = isLowerToken(last, seen)
  if isBehind then
    redis.call('set', tokens, seen)
  end
  redis.call('incr', tokens)
  return { redis.call('get', tokens), isBehind and last or '' }
end

-- The token for an owner that already holds the lock, as nextToken() returns one. A repeated request gets its token
-- again: nobody else draws one while this owner holds the lock. But a token that its client has seen is that of an
-- earlier hold, whose release a new master has missed: then this is a new request, with a new token.
local function repeatToken(tokens, seen)
  local last = redis.call('get', tokens)
  if last and isLowerToken(seen, last) then
    return { last, '' }
  end
  return nextToken(tokens, seen)
end
