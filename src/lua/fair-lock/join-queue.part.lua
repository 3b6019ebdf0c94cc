-- include fair-lock/deadlines

-- Adds a waiter at the end of the queue, unless it is in it, and sets its deadline. Like Redisson it adds the wait
-- times of the queue up. A waiter that asks is alive, so its deadline is never lowered here. `leaseLeft` is what is
-- left of the current lease, ms.
local function joinQueue(queue, deadlines, holder, wait, now, leaseLeft)
  local place = redis.call('lpos', queue, holder)
  local deadline
  if place then
    deadline = now + (place + 1) * wait
  else
    local last = redis.call('lindex', queue, -1)
    deadline = math.max(now + math.max(leaseLeft, 0), last and deadlineOf(deadlines, last) or 0) + wait
  end
  if deadlineOf(deadlines, holder) < deadline then
    setDeadline(deadlines, holder, deadline)
  end
  if not place then
    redis.call('rpush', queue, holder)
  end
end
