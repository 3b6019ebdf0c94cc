-- include queue/places

-- How long a waiter whose turn has come may take to ask, ms: less than the second after which the next one asks.
local ANSWER_MS = 900
-- Whether nobody may have received a message that somebody receives: in a cluster only this server is counted.
local IS_CLUSTER = false

-- Notifies a waiter that its turn has come. Until it asks, its client is believed to be alive for as long as it may take. A
-- client that receives no message is gone, unless it was heard of a moment ago: then it is still subscribing. `wasHeard` has
-- the clients of which that is known. Returns whether the waiter may come.
local function reach(clients, inboxPrefix, waiter, now, wasHeard)
  local client, deadline = clientOf(waiter), believedUntil(clients, waiter) or 0
  wasHeard[client] = wasHeard[client] or IS_CLUSTER or deadline >= now + ALIVE_MS - ANSWER_MS
  if deadline <= now or notifyWaiter(inboxPrefix, waiter, 'turn') == 0 and not wasHeard[client] then
    redis.call('zrem', clients, client)
    return false
  end
  believe(clients, waiter, math.min(deadline, now + ANSWER_MS))
  return true
end
