-- include fair-lock/wake-first
-- include fair-lock/shift-deadlines

-- Removes a waiter from the queue. Its wait time was added to the deadlines behind it, and is subtracted from them.
-- If it was its turn, its successor is woken. Returns 1 if it was queued, else 0.
local function leaveQueue(lock, queue, deadlines, holder, wait, channelPrefix, message)
  redis.call('zrem', deadlines, holder)
  local place = redis.call('lpos', queue, holder)
  if not place then
    return 0
  end
  shiftDeadlines(deadlines, redis.call('lrange', queue, place + 1, -1), tonumber(wait))
  redis.call('lrem', queue, 0, holder)
  if place == 0 and redis.call('exists', lock) == 0 then
    wakeFirst(queue, channelPrefix, message)
  end
  return 1
end
