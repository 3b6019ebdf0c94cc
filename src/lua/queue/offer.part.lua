-- include queue/holds

-- How long an offer lasts, ms: a hold with a short lease. By then the waiter has asked once more, and has its whole lease.
-- Less than the second after which the next one asks.
local OFFER_MS = 900
-- Whether nobody may have received a message that somebody receives: in a cluster only this server is counted.
local IS_CLUSTER = false

-- Takes back what was just given to a waiter that nobody could tell.
local function takeBack(lock, prefix, holder)
  local KEYS = { lock, readHold(prefix, holder, 1) }
  if not isAlone(prefix, holder) then
    redis.call('del', KEYS[2])
  end
  redis.call('hdel', KEYS[1], holder)
  if prefix ~= '' and redis.call('hlen', KEYS[1]) == 1 then
    redis.call('del', KEYS[1])
  end
end

-- Offers the lock to a waiter. Its client is believed to be alive as long as the offer lasts, until it asks. A client that
-- receives no message is gone, unless it was heard of a moment ago: then it is still subscribing. `wasHeard` has the clients
-- of which that is known. Returns whether the waiter is offered it, or an error.
local function offer(lock, clients, prefix, inboxPrefix, holder, now, wasHeard)
  local deadline = believedUntil(clients, holder) or 0
  local refused = deadline > now and give(lock, prefix, holder, OFFER_MS)
  if deadline <= now or refused then
    return refused
  end
  local client = clientOf(holder)
  wasHeard[client] = wasHeard[client] or IS_CLUSTER or deadline >= now + ALIVE_MS - OFFER_MS
  if notifyWaiter(inboxPrefix, holder, 'turn') == 0 and not wasHeard[client] then
    takeBack(lock, prefix, holder)
    redis.call('zrem', clients, client)
    return false
  end
  believe(clients, holder, now + OFFER_MS)
  return true
end
