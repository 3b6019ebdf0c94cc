-- include queue/offer
-- include queue/run

-- Tells the first waiter that can be reached, but not one of `except`: that its turn has come, or that it is next. Who is next
-- asks after a while, in case the client that was offered the lock does not answer.
local function tell(queue, clients, inboxPrefix, except, message)
  local isMissing, tried = {}, 0
  isMissing[except] = true
  for from = 0, LOOKS - 1, 50 do
    local waiters = redis.call('zrange', queue, from, from + 49)
    for _, holder in ipairs(waiters) do
      local client = clientOf(holder)
      if not isMissing[client] then
        isMissing[client] = true
        tried = tried + 1
        if notifyWaiter(inboxPrefix, holder, message) ~= 0 or tried == STEPS then
          return
        end
      end
    end
    if #waiters == 0 then
      if from == 0 then
        redis.call('del', clients)
      end
      return
    end
  end
end

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
