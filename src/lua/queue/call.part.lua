-- include queue/enqueue
-- include queue/tell

-- Permits in order: who waits is called when there are enough for it and for all before it, and then asks for its own.
-- How long a waiter that was called may take to ask, ms: less than the second after which the next one asks.
local CALL_MS = 900
-- Whether nobody may have received a message that somebody receives: in a cluster only this server is counted.
local IS_CLUSTER = false

local function permitsOf(waiter)
  return tonumber(string.match(waiter, '^.*:(%d+)$') or 1)
end

local function leaveQueue(queue, clients, waiter)
  redis.call('zrem', queue, waiter)
  redis.call('zrem', clients, waiter)
end

-- Calls a waiter. Its client is believed to be alive as long as the call lasts, until it asks. A client that receives no message
-- is gone, unless it was heard of a moment ago: then it is still subscribing. Returns whether the waiter may come.
local function callOne(queue, clients, inboxPrefix, waiter, now, wasHeard)
  local client, deadline = clientOf(waiter), believedUntil(clients, waiter) or 0
  wasHeard[client] = wasHeard[client] or IS_CLUSTER or deadline >= now + ALIVE_MS - CALL_MS
  if notifyWaiter(inboxPrefix, waiter, 'turn') == 0 and not wasHeard[client] then
    leaveQueue(queue, clients, waiter)
    return false
  end
  redis.call('zadd', clients, now + CALL_MS, waiter)
  believe(clients, waiter, math.min(deadline, now + CALL_MS))
  return true
end

-- Calls the first waiters, as many as there are permits for, and tells the next client to ask after a while.
local function callFirst(queue, clients, inboxPrefix, available, now)
  local first, wasHeard = nil, {}
  for _, waiter in ipairs(redis.call('zrange', queue, 0, STEPS - 1)) do
    if permitsOf(waiter) > available then
      break
    end
    if redis.call('zscore', clients, waiter) or callOne(queue, clients, inboxPrefix, waiter, now, wasHeard) then
      available = available - permitsOf(waiter)
      first = first or waiter
    end
  end
  if first then
    tell(queue, clients, inboxPrefix, clientOf(first), 'next')
  elseif redis.call('exists', queue) == 0 then
    redis.call('del', clients)
  end
end

-- A waiter has taken its permits, or given up: those behind it may have their turn.
local function callNext(queue, clients, waiter, inboxPrefix, available, now)
  if redis.call('exists', queue) == 1 then
    leaveQueue(queue, clients, waiter)
    callFirst(queue, clients, inboxPrefix, available, now)
  end
end
