-- include queue/enqueue
-- include queue/reach
-- include queue/tell

-- Permits in order: who waits is called when there are enough for it and for all before it, and then asks for its own.

local function permitsOf(waiter)
  return tonumber(string.match(waiter, '^.*:(%d+)$') or 1)
end

local function leaveQueue(queue, clients, waiter)
  redis.call('zrem', queue, waiter)
  redis.call('zrem', clients, waiter)
end

-- Calls a waiter, unless that was done. Returns whether it may come; otherwise it has left the queue.
local function callOne(queue, clients, inboxPrefix, waiter, now, wasHeard)
  if redis.call('zscore', clients, waiter) then
    return true
  elseif reach(clients, inboxPrefix, waiter, now, wasHeard) then
    redis.call('zadd', clients, now + ANSWER_MS, waiter)
    return true
  end
  leaveQueue(queue, clients, waiter)
  return false
end

-- Calls the first waiters, as many as there are permits for, and tells the next client to ask after a while. Returns whether there
-- are more to remove than one call does: then a waiter is told to ask.
local function callFirst(queue, clients, inboxPrefix, available, now)
  local called, wasHeard, isUnfinished = {}, {}, true
  for _ = 1, STEPS do
    local waiter = redis.call('zrange', queue, #called, #called)[1]
    if not waiter or permitsOf(waiter) > available then
      isUnfinished = false
      break
    elseif callOne(queue, clients, inboxPrefix, waiter, now, wasHeard) then
      table.insert(called, waiter)
      available = available - permitsOf(waiter)
    end
  end
  if #called > 0 then
    tell(queue, clients, inboxPrefix, clientOf(called[1]), 'next')
    return false
  elseif isUnfinished then
    tell(queue, clients, inboxPrefix, '', 'turn')
  elseif redis.call('exists', queue) == 0 then
    redis.call('del', clients)
  end
  return isUnfinished
end

-- A waiter has taken its permits, or given up: those behind it may have their turn.
local function callNext(queue, clients, waiter, inboxPrefix, available, now)
  if redis.call('exists', queue) == 1 then
    leaveQueue(queue, clients, waiter)
    callFirst(queue, clients, inboxPrefix, available, now)
  end
end
