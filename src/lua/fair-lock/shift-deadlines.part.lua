-- include time/now
-- include fair-lock/deadlines

-- Lowers the deadlines of waiters by the wait time of one ahead of them that was served or leaves, as Redisson does.
-- Since wait times differ, a deadline may contain less than that, so it keeps 10 s in which a living waiter asks
-- again. Fractions stay.
local function shiftDeadlines(deadlines, waiters, wait)
  if #waiters == 0 then
    return
  end
  local least = epochMs() + 10000
  for _, waiter in ipairs(waiters) do
    local deadline = deadlineOf(deadlines, waiter)
    local moved = math.max(deadline - math.floor(wait), math.min(deadline, least))
    redis.call('zadd', deadlines, string.format('%.1f', moved), waiter)
  end
end
