-- include read-lock/all-readers

-- For a writer that is refused: what is left of a lock, ms, which is `left` according to its expiry; -2 if it is free
-- after all, because all its readers died. Waits for readers no longer than their holds last.
local function leftForWriter(lock, prefix, left)
  if left < 0 or redis.call('hget', lock, 'mode') ~= 'read' then
    return left
  end
  local longest, looked = longestReadOfAll(lock, prefix, '', left)
  if looked == 'dead' then
    return 1
  elseif looked == 'some' then
    return left
  elseif longest > 0 then
    redis.call('pexpire', lock, longest)
    return longest
  end
  if redis.call('hlen', lock) > 1 then
    -- something else is in it, too
    return left
  end
  redis.call('del', lock)
  return -2
end
