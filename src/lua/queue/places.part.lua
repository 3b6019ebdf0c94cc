-- The queue of an ordered lock: a sorted set of the holders that wait, by their places. Another one says until when each of
-- their clients is believed to be alive.

-- How long the queue lasts after the last request, ms. Waiters ask every 5 s.
local QUEUE_TTL_MS = 60000
-- How long a client is believed to be alive after a request, ms.
local ALIVE_MS = 15000
-- How many waiters one call serves or removes, and how many it looks at: Redis serves nobody else meanwhile.
local STEPS = 32
local LOOKS = 500

local function clientOf(holder)
  return string.sub(holder, 1, (string.find(holder, ':', 1, true) or 0) - 1)
end

-- Whether a holder is alone: a writer, or the holder of a plain lock, which has no prefix for read holds.
local function isAlone(prefix, holder)
  return prefix == '' or string.sub(holder, -6) == ':write'
end

-- Notes until when the client of a waiter is believed to be alive.
local function believe(clients, holder, deadline)
  redis.call('zadd', clients, deadline, clientOf(holder))
  redis.call('pexpire', clients, QUEUE_TTL_MS)
end

-- Until when the client of a waiter is believed to be alive; nil: it did not answer.
local function believedUntil(clients, holder)
  local deadline = redis.call('zscore', clients, clientOf(holder))
  return deadline and tonumber(deadline) or nil
end

-- Publishes a message about a waiter to the inbox of its client. Returns how many connections received it.
local function notifyWaiter(inboxPrefix, holder, message)
  local client = clientOf(holder)
  return redis.pcall('publish', inboxPrefix .. client, message .. ' ' .. string.sub(holder, #client + 1))
end
