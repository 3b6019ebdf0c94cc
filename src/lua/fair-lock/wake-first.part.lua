-- include time/now
-- include fair-lock/deadlines

-- Wakes the first waiter in the queue; if it is not subscribed (it died, or has not subscribed yet) also the next one,
-- which then checks the others. Redisson's waiters do not check them: so those that are not subscribed keep 10 s in which
-- to ask. Returns how many connections received the message, -1 if publishing was refused.
local function wakeFirst(queue, deadlines, channelPrefix, message)
  local latest
  for place = 0, 99 do
    local waiter = redis.call('lindex', queue, place)
    if not waiter then
      return 0
    end
    local receivers = redis.pcall('publish', channelPrefix .. waiter, message)
    if type(receivers) ~= 'number' then
      return -1
    elseif receivers > 0 then
      return receivers
    end
    latest = latest or epochMs() + 10000
    if deadlineOf(deadlines, waiter) > latest then
      setDeadline(deadlines, waiter, latest)
    end
  end
  return 0
end
