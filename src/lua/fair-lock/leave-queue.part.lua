-- include fair-lock/wake-first
-- include fair-lock/lower-last

-- Removes a waiter from the queue. Costs the same however many wait: those who leave together are usually the first or
-- the last ones, which are found at once. If it was its turn, its successor is woken. Returns 1 if it was queued, else 0.
local function leaveQueue(lock, queue, deadlines, holder, wait, channelPrefix, message)
  local deadline = deadlineOf(deadlines, holder)
  redis.call('zrem', deadlines, holder)
  local isFirst = redis.call('lindex', queue, 0) == holder
  local isLast = redis.call('lindex', queue, -1) == holder
  if redis.call('lrem', queue, isLast and -1 or 1, holder) == 0 then
    return 0
  end
  lowerLast(queue, deadlines, tonumber(wait), isLast and math.floor(deadline) or nil)
  if isFirst and redis.call('exists', lock) == 0 then
    wakeFirst(queue, deadlines, channelPrefix, message)
  end
  return 1
end
