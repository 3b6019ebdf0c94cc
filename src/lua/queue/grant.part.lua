-- include queue/offer

-- Tells the first waiter of another client that it is next: it asks after a while, in case the client that was offered the
-- lock does not answer.
local function notifyNext(queue, clients, inboxPrefix, client)
  for from = 0, STEPS - 1, 50 do
    local waiters = redis.call('zrange', queue, from, from + 49)
    for _, holder in ipairs(waiters) do
      if clientOf(holder) ~= client and notifyWaiter(inboxPrefix, holder, 'next') ~= 0 then
        return
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

-- Offers the lock to the first waiters, as long as nobody keeps them out. Returns the last one, or nil, or an error.
local function grant(lock, queue, clients, prefix, inboxPrefix, now)
  local offered
  for _ = 1, STEPS do
    if offered and isWriter(offered) then
      break
    end
    local first = redis.call('zrange', queue, 0, 0)[1]
    if not first then
      redis.call('del', clients)
      return offered
    elseif leftFor(lock, prefix, first) ~= -2 then
      break
    end
    redis.call('zrem', queue, first)
    local result = offer(lock, clients, prefix, inboxPrefix, first, now)
    if type(result) == 'table' then
      return result
    elseif result then
      offered = first
    end
  end
  if offered then
    notifyNext(queue, clients, inboxPrefix, clientOf(offered))
  end
  return offered
end
