-- Give up a place in the queue. The deadlines behind it had its wait time added to theirs, and move forward by it. If it
-- was the turn of the one that leaves, its successor is woken. Answers whether it was queued.
local function quit(lock, queue, deadlines, holder, wait, channelPrefix, message)
  redis.call('zrem', deadlines, holder)
  local place = redis.call('lpos', queue, holder)
  if not place then
    return 0
  end
  shift(deadlines, redis.call('lrange', queue, place + 1, -1), tonumber(wait))
  redis.call('lrem', queue, 0, holder)
  if place == 0 and redis.call('exists', lock) == 0 then
    wakeFirst(queue, channelPrefix, message)
  end
  return 1
end
