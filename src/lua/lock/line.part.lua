-- The turn queue that wait for a lock: a list of tickets, each "<client id>:<number>", first come first. A client hears
-- of its tickets on its inbox. All commands are protected: without the right to the inboxes the lock works all the same.

-- The list is never longer than this, unless somebody else wrote into it.
local MOST_TICKETS = 4096
-- So many are dealt with in one call at most, which takes 2 ms; a client that polls in vain does the rest.
local MOST_AT_ONCE = 1024

-- Returns how many connections heard it: 0 if the client is gone.
local function notify(inboxes, ticket, news)
  local client, number = string.match(ticket, '^(.+):(%d+)$')
  if client == nil then
    return 0
  end
  return redis.pcall('publish', inboxes .. client, news .. ' ' .. number)
end

-- Gives the turn to the first client that is there, and tells the one behind it that it is next: it looks after a while,
-- should the first stand still. Tickets of clients that are gone are dropped on the way. `news` is 'turn', or 'next' if the
-- lock is not free.
-- Returns how many clients heard of it, without the one with the ticket `own`; -1: publishing was refused.
local function passTurn(waiters, inboxes, own, news)
  local others = 0
  for _ = 1, MOST_AT_ONCE do
    local ticket
    if news == 'turn' then
      ticket = redis.pcall('lpop', waiters)
    else
      ticket = redis.pcall('lindex', waiters, 0)
    end
    if type(ticket) ~= 'string' then
      return others
    end
    local heard = notify(inboxes, ticket, news)
    if type(heard) ~= 'number' then
      return -1
    end
    if heard == 0 then
      if news == 'next' then
        redis.pcall('lpop', waiters)
      end
    else
      if ticket ~= own then
        others = others + 1
      end
      if news == 'next' then
        return others
      end
      news = 'next'
    end
  end
  return others
end

-- Puts a ticket at the end, unless it is there.
local function standInLine(waiters, ticket, patience)
  if redis.pcall('lpos', waiters, ticket) == false then
    local length = redis.pcall('rpush', waiters, ticket)
    -- so many clients there are not: somebody else wrote them, and each command on the list would take long
    if type(length) == 'number' and length > MOST_TICKETS then
      redis.pcall('del', waiters)
      redis.pcall('rpush', waiters, ticket)
    end
  end
  redis.pcall('pexpire', waiters, patience)
end
