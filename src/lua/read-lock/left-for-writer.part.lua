-- include read-lock/all-readers

-- For a writer that is refused: how long to wait for the lock, ms, of which `left` is left according to its expiry; -2 if
-- it is free after all, because all its readers died.
local function leftForWriter(lock, prefix, left)
  if left < 0 or redis.call('hget', lock, 'mode') ~= 'read' then
    return left
  end
  local longest, seen, dead = longestReadOfAll(lock, prefix, '', left)
  if seen == 'dead' then
    removeReaders(lock, dead)
    return 1
  elseif seen == 'some' then
    return left
  elseif longest > 0 then
    return math.min(longest, left)
  elseif redis.call('hlen', lock) > 1 + #dead then
    -- something else than a lock
    return left
  end
  redis.call('del', lock)
  return -2
end
