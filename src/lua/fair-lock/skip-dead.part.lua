-- include fair-lock/shorten-deadlines

-- Removes dead waiters from the head of the queue, up to `holder` or the first that may be alive. That one is woken
-- again, in case it missed the message, and has 5 s to ask, or 1 s if it is not subscribed.
-- Returns the first in the queue, if any, and unless that is `holder` how long to wait for it, ms.
local function skipDead(queue, deadlines, holder, now, channelPrefix, message)
  local frozenClient
  local first = redis.call('lindex', queue, 0)
  while first and first ~= holder do
    local deadline = deadlineOf(deadlines, first)
    local isUnsubscribed = redis.pcall('publish', channelPrefix .. first, message) == 0
    if deadline > now or not isUnsubscribed and not wasWoken(deadline) then
      local latest = now + (isUnsubscribed and 1000 or 5000)
      if deadline <= now or deadline > latest then
        deadline = latest
        setDeadlineOfWoken(deadlines, first, latest)
      end
      if isUnsubscribed then
        shortenDeadlinesBehind(holder, queue, deadlines, latest, channelPrefix, message)
      end
      return first, math.min(math.floor(deadline) - now, 1000)
    end
    redis.call('zrem', deadlines, first)
    redis.call('lpop', queue)
    if not isUnsubscribed and clientOf(first) ~= frozenClient then
      frozenClient = clientOf(first)
      shortenDeadlinesOf(frozenClient, queue, deadlines, now + 1000, channelPrefix, message)
    end
    first = redis.call('lindex', queue, 0)
  end
  return first
end
