-- include queue/places
-- include queue/holds

-- How long an offer lasts, ms: by then the waiter has asked once more, and has its whole lease.
local OFFER_MS = 1000
-- Whether nobody may have received a message that somebody receives: in a cluster only this server is counted.
local IS_CLUSTER = false

-- Forgets offers that nobody took, and their clients, which did not answer.
local function endOffers(clients, offers, now)
  for _, holder in ipairs(redis.call('zrangebyscore', offers, '-inf', now, 'limit', 0, STEPS)) do
    redis.call('zrem', offers, holder)
    redis.call('zrem', clients, clientOf(holder))
  end
end

-- Offers the lock to a waiter: a hold with a short lease. A client that receives no message is gone, unless it was heard of
-- a moment ago: then it is still subscribing.
local function offer(lock, clients, offers, prefix, inboxPrefix, holder, now)
  local refused = give(lock, prefix, holder, OFFER_MS)
  if refused then
    return refused
  end
  if notifyWaiter(inboxPrefix, holder, 'turn') == 0 and not IS_CLUSTER then
    local believed = redis.call('zscore', clients, clientOf(holder))
    if tonumber(believed) < now + ALIVE_MS - OFFER_MS then
      takeBack(lock, prefix, holder)
      redis.call('zrem', clients, clientOf(holder))
      return nil
    end
  end
  redis.call('zadd', offers, now + OFFER_MS, holder)
  redis.call('pexpire', offers, QUEUE_TTL_MS)
  return nil
end
