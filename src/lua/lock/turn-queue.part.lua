-- include lock/inbox

-- The turn queue of a lock: a list of tickets, each "<client id>:<number>", the next one first. All commands on it are
-- protected: a user without rights to it can use the lock all the same.

-- Holdfast never makes the list longer than this.
local MAX_TICKETS = 4096
-- Maximum number of tickets that one call processes: Redis serves nobody else meanwhile. Clients that poll process the rest.
local TICKETS_PER_CALL = 128

-- Gives the turn to the first client that is still there, and notifies the one behind it that it is next: that one asks
-- after a while, in case the first is frozen. Removes tickets of clients that are gone. `message` is 'turn', or
-- 'next' if the lock is not free.
-- Returns how many clients were notified, not counting that of `ownTicket`; -1: publishing was refused.
local function passTurn(turnQueue, inboxPrefix, ownTicket, message)
  local others = 0
  for _ = 1, TICKETS_PER_CALL do
    local ticket
    if message == 'turn' then
      ticket = redis.pcall('lpop', turnQueue)
    else
      ticket = redis.pcall('lindex', turnQueue, 0)
    end
    if type(ticket) ~= 'string' then
      return others
    end
    local receivers = notify(inboxPrefix, ticket, message)
    if type(receivers) ~= 'number' then
      return -1
    end
    if receivers > 0 then
      if ticket ~= ownTicket then
        others = others + 1
      end
      if message == 'next' then
        return others
      end
      message = 'next'
    elseif message == 'next' then
      redis.pcall('lpop', turnQueue)
    end
  end
  return others
end

-- Adds a ticket at the end, unless it is in the queue.
local function joinTurnQueue(turnQueue, ticket, ttl)
  if redis.pcall('lpos', turnQueue, ticket) == false then
    local length = redis.pcall('rpush', turnQueue, ticket)
    -- somebody else filled the list, and each command on it would take long
    if type(length) == 'number' and length > MAX_TICKETS then
      redis.pcall('del', turnQueue)
      redis.pcall('rpush', turnQueue, ticket)
    end
  end
  redis.pcall('pexpire', turnQueue, ttl)
end
