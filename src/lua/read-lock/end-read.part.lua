-- include read-lock/all-readers
-- include read-lock/delete-reader

-- Ends the holds of a reader. The lock lasts as long as the longest remaining read hold, or longer if many read; dead readers
-- do not count. Returns nil: it did not read; "unfinished"; or whether its holds had not ended. And what became of the lock:
-- 'free'; 'shorter', so that it ends sooner than waiters expect, and before they poll; else nil.
local function endRead(lock, prefix, holder)
  local count = redis.call('hget', lock, holder)
  if not count then
    return nil, nil
  end
  local isWritten, before = redis.call('hget', lock, 'mode') == 'write', redis.call('pttl', lock)
  local longest, seen, dead = longestReadOfAll(lock, prefix, holder, before)
  removeReaders(lock, dead)
  local wasHeld = seen ~= 'dead' and deleteReader(lock, prefix, holder, count)
  if seen == 'dead' or wasHeld == nil then
    return 'unfinished', nil
  end
  local isEnd = seen == 'all' and not isWritten
  if isEnd and longest > 0 then
    redis.call('pexpire', lock, longest)
    return wasHeld, longest < 5000 and before - longest > 100 and 'shorter' or nil
  elseif isEnd then
    redis.call('del', lock)
    return wasHeld, 'free'
  end
  return wasHeld, nil
end
