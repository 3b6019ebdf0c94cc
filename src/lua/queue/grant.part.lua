-- include queue/offer
-- include queue/run
-- include queue/tell

-- Offers the lock to the first waiters, as long as nobody keeps them out. Returns the last one, nil or an error; and whether
-- there is more to do than one call does, or later: then a waiter is told to ask.
local function grant(lock, queue, clients, prefix, inboxPrefix, now)
  local offered, wasHeard, steps = nil, {}, isPaused(clients, now) and 0 or STEPS
  for _ = 1, steps do
    local first = (not offered or not isAlone(prefix, offered)) and redis.call('zrange', queue, 0, 0)[1]
    local isKeptOut = first and leftFor(lock, prefix, first) ~= -2
    if not first or isKeptOut then
      if offered then
        tell(queue, clients, inboxPrefix, clientOf(offered), 'next')
      elseif not first then
        redis.call('del', clients)
      end
      return offered, false
    end
    redis.call('zrem', queue, first)
    local result = offer(lock, clients, prefix, inboxPrefix, first, now, wasHeard)
    if type(result) == 'table' then
      return result, false
    elseif result then
      offered = first
    end
  end
  tell(queue, clients, inboxPrefix, '', 'turn')
  return offered, true
end
