-- include queue/grant
-- include read-lock/end-read
-- include write-lock/end-write

-- Ends the hold of a waiter or holder, wherever it is. Returns nil: it had none; "unfinished"; or whether it had not ended.
local function endHold(lock, queue, offers, prefix, holder)
  local ended
  if isWriter(holder) then
    ended = endWrite(lock, prefix, holder)
  else
    ended = endRead(lock, prefix, holder)
  end
  if ended ~= 'unfinished' then
    redis.call('zrem', queue, holder)
    redis.call('zrem', offers, holder)
  end
  return ended
end
