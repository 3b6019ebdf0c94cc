-- include time/now
-- include fair-lock/deadlines

-- A waiter that is served or leaves takes its wait time out of the queue. Redisson subtracts it from each deadline behind
-- it, which takes long if many wait. But a deadline counts only for the first in the queue, and only as over or not; and
-- the next waiter adds to that of the last one. So only that one is lowered: to `before`, the deadline of a waiter behind
-- it that left, or its own, less `wait`. Since wait times differ, a deadline may contain less than that, so it keeps 10 s
-- in which a living waiter asks again.
local function lowerLast(queue, deadlines, wait, before)
  local last = redis.call('lindex', queue, -1)
  if not last then
    return
  end
  local deadline = deadlineOf(deadlines, last)
  local lowered = math.max((before or deadline) - math.floor(wait), epochMs() + 10000)
  if lowered < deadline then
    setDeadline(deadlines, last, lowered)
  end
end
