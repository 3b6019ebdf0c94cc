-- include queue/places

-- How many places each priority has: all scores are whole numbers that a double can carry.
local PLACES = 4398046511104

-- The place behind the last waiter of the same priority, as text.
local function lastPlace(queue, priority)
  local base = -priority * PLACES
  local ahead = redis.call('zcount', queue, '-inf', string.format('%.0f', base + PLACES - 1))
  local last = base
  if ahead > 0 then
    last = math.max(base, tonumber(redis.call('zrange', queue, ahead - 1, ahead - 1, 'withscores')[2]))
  end
  return string.format('%.0f', last + 1)
end

-- Removes waiters of clients of which nothing was heard for long.
local function removeDead(queue, clients, now)
  for _, holder in ipairs(redis.call('zrange', queue, 0, STEPS - 1)) do
    if (believedUntil(clients, holder) or 0) <= now then
      redis.call('zrem', queue, holder)
    end
  end
end

-- Queues a waiter, at the place that it had if it had one. Returns the place; or nil and how many wait, if the queue is full.
local function enqueue(queue, clients, waiter, priority, place, most, now)
  local present = redis.call('zscore', queue, waiter)
  if not present then
    local waiting = most >= 0 and place == '' and redis.call('zcard', queue)
    if waiting and waiting >= most then
      removeDead(queue, clients, now)
      waiting = redis.call('zcard', queue)
    end
    if waiting and waiting >= most then
      return nil, waiting
    end
    present = place == '' and lastPlace(queue, tonumber(priority)) or place
    redis.call('zadd', queue, present, waiter)
  end
  believe(clients, waiter, now + ALIVE_MS)
  redis.call('pexpire', queue, QUEUE_TTL_MS)
  return present
end
