-- Take the wait time of one that is served or leaves off the deadlines of those behind it, as Redisson does. But a deadline
-- may hold less of it than that, as waits differ: who lives keeps the time to ask again. Fractions stay: they say who was
-- woken.
local function shift(deadlines, waiters, wait)
  if #waiters == 0 then
    return
  end
  local time = redis.call('time')
  local least = time[1] * 1000 + math.floor(time[2] / 1000) + 10000
  for _, waiter in ipairs(waiters) do
    local deadline = tonumber(redis.call('zscore', deadlines, waiter) or 0)
    local moved = math.max(deadline - math.floor(wait), math.min(deadline, least))
    redis.call('zadd', deadlines, string.format('%.1f', moved), waiter)
  end
end
