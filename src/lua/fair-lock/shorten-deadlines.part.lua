-- include fair-lock/deadlines

-- How many deadlines one call shortens at most: Redis serves nobody else meanwhile.
local MAX_SHORTENED = 100

-- A holder begins with the id of its client.
local function clientOf(holder)
  return string.match(holder, '^.*:') or holder
end

-- For a client whose waiter received its wake-up and did not ask: its whole process may be frozen. Wakes its other
-- waiters, as far as they are among the first, and gives them until `deadline` to ask.
local function shortenDeadlinesOf(queue, deadlines, client, deadline, channelPrefix, message)
  for _, waiter in ipairs(redis.call('lrange', queue, 0, MAX_SHORTENED - 1)) do
    if clientOf(waiter) == client and not wasWoken(deadlineOf(deadlines, waiter)) then
      redis.pcall('publish', channelPrefix .. waiter, message)
      setDeadlineOfWoken(deadlines, waiter, deadline)
    end
  end
end

-- For a waiter that is not subscribed: those behind it may have died with it. Wakes them, up to the first that is
-- subscribed or asks itself, and gives them until `deadline` to ask. Those that have longer are found by their deadlines,
-- which are in the order of the queue, as a rule. Returns whether there may be more of them.
local function shortenDeadlinesBehind(deadlines, holder, deadline, channelPrefix, message)
  local from = string.format('%d', deadline + 1)
  local longer = redis.call('zrangebyscore', deadlines, from, '9007199254740991', 'limit', 0, MAX_SHORTENED)
  for _, waiter in ipairs(longer) do
    if waiter == holder or redis.pcall('publish', channelPrefix .. waiter, message) ~= 0 then
      return false
    end
    setDeadline(deadlines, waiter, deadline)
  end
  return #longer == MAX_SHORTENED
end
