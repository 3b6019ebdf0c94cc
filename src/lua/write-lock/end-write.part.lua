-- include read-lock/all-readers

-- Ends the hold of a writer. If it also reads, it continues to read. Returns nil: it does not write; "unfinished"; or true.
local function endWrite(lock, prefix, holder)
  if redis.call('hexists', lock, holder) == 0 then
    return nil
  end
  local longest, seen, dead = longestReadOfAll(lock, prefix, holder, -1)
  removeReaders(lock, dead)
  if seen == 'dead' then
    return 'unfinished'
  end
  redis.call('hdel', lock, holder)
  if seen ~= 'all' then
    redis.call('hset', lock, 'mode', 'read')
  elseif longest > 0 then
    redis.call('hset', lock, 'mode', 'read')
    redis.call('pexpire', lock, longest)
  else
    redis.call('del', lock)
  end
  return true
end
