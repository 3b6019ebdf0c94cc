-- include fair-lock/shorten-deadlines

-- How many dead waiters one call removes at most: Redis serves nobody else meanwhile.
local MAX_SKIPPED = 50

-- Removes dead waiters from the head of the queue, up to `holder` or the first that may be alive. That one is woken
-- again, in case it missed the message, and has 5 s to ask, or 1 s if it is not subscribed.
-- Returns the first in the queue, if any, and unless that is `holder` how long to wait for it, ms: 1 if more of the queue
-- is to be checked.
local function skipDead(queue, deadlines, holder, now, channelPrefix, message)
  local hasShortened = false
  local first = redis.call('lindex', queue, 0)
  for _ = 1, MAX_SKIPPED do
    if not first or first == holder then
      return first
    end
    local deadline = deadlineOf(deadlines, first)
    local isUnsubscribed = redis.pcall('publish', channelPrefix .. first, message) == 0
    if deadline > now or not isUnsubscribed and not wasWoken(deadline) then
      local latest = now + (isUnsubscribed and 1000 or 5000)
      if deadline <= now or deadline > latest then
        deadline = latest
        setDeadlineOfWoken(deadlines, first, latest)
      end
      if isUnsubscribed and shortenDeadlinesBehind(deadlines, holder, latest, channelPrefix, message) then
        return first, 1
      end
      return first, math.min(math.floor(deadline) - now, 1000)
    end
    redis.call('zrem', deadlines, first)
    redis.call('lpop', queue)
    if not isUnsubscribed and not hasShortened then
      shortenDeadlinesOf(queue, deadlines, clientOf(first), now + 1000, channelPrefix, message)
      hasShortened = true
    end
    first = redis.call('lindex', queue, 0)
  end
  return first, 1
end
