-- include queue/holds
-- include queue/reach

-- Offers the lock to a waiter: a hold with a short lease. By then the waiter has asked once more, and has its whole lease.
-- Returns whether the waiter is offered it, or an error.
local function offer(lock, clients, prefix, inboxPrefix, holder, now, wasHeard)
  return reach(clients, inboxPrefix, holder, now, wasHeard) and (give(lock, prefix, holder, ANSWER_MS) or true)
end
