-- include queue/offer

-- Offers the lock to the first waiters, as long as nobody keeps them out. The first that is kept out learns that it is next:
-- it asks after a while, in case whoever is in front does not answer.
local function grant(lock, queue, clients, offers, prefix, inboxPrefix, now)
  endOffers(clients, offers, now)
  local granted = 0
  for _ = 1, STEPS do
    local first = redis.call('zrange', queue, 0, 0)[1]
    if first and isAlive(clients, first, now) then
      if leftFor(lock, prefix, first) ~= -2 then
        if granted > 0 then
          notifyWaiter(inboxPrefix, first, 'next')
        end
        return nil
      end
      redis.call('zrem', queue, first)
      local refused = offer(lock, clients, offers, prefix, inboxPrefix, first, now)
      if refused then
        return refused
      end
      granted = granted + 1
    elseif first then
      redis.call('zrem', queue, first)
    else
      redis.call('del', clients)
      return nil
    end
  end
  return nil
end
