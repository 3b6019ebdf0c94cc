-- include fair-lock/deadlines

-- How long a queue lasts after a waiter of ours has last asked, ms. Whoever comes to a queue skips the dead, so this ends
-- only the places of processes that died while nobody else wanted the lock.
local QUEUE_TTL = 86400000

-- Adds a waiter at the end of the queue, unless it is in it, and sets its deadline. Like Redisson it adds the wait
-- times of the queue up. A waiter that asks is alive, so its deadline is never lowered here. `leaseLeft` is what is
-- left of the current lease, ms.
local function joinQueue(queue, deadlines, holder, wait, now, leaseLeft)
  local own = deadlineOf(deadlines, holder)
  -- Whoever adds or removes a waiter does so in both. Then the queue, which Redis reads from its beginning, need not be
  -- searched for those that are certainly not in it, or that are in it and far from being judged.
  local isInStep = redis.call('llen', queue) == redis.call('zcard', deadlines)
  if not isInStep or own < now + 8 * wait then
    local place = not (isInStep and own == 0) and redis.call('lpos', queue, holder)
    local deadline
    if place then
      deadline = now + (place + 1) * wait
    else
      local last = redis.call('lindex', queue, -1)
      deadline = math.max(now + math.max(leaseLeft, 0), last and deadlineOf(deadlines, last) or 0) + wait
    end
    if own < deadline then
      setDeadline(deadlines, holder, deadline)
    end
    if not place then
      redis.call('rpush', queue, holder)
    end
  end
  redis.call('pexpire', queue, QUEUE_TTL)
  redis.call('pexpire', deadlines, QUEUE_TTL)
end
