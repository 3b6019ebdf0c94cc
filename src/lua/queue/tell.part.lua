-- include queue/places

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
