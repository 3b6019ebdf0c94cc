-- include fair-lock/deadlines

-- A holder begins with the id of its client.
local function clientOf(holder)
  return string.match(holder, '^.*:') or holder
end

-- For a client whose waiter received its wake-up and did not ask: its whole process may be frozen. Wakes all its other
-- waiters, and gives them until `deadline` to ask.
local function shortenDeadlinesOf(client, queue, deadlines, deadline, channelPrefix, message)
  for _, waiter in ipairs(redis.call('lrange', queue, 0, 999)) do
    if clientOf(waiter) == client and not wasWoken(deadlineOf(deadlines, waiter)) then
      redis.pcall('publish', channelPrefix .. waiter, message)
      setDeadlineOfWoken(deadlines, waiter, deadline)
    end
  end
end

-- For a waiter that is not subscribed: those behind it may have died with it. Wakes them, up to the first that is
-- subscribed or asks itself, and gives them until `deadline` to ask.
local function shortenDeadlinesBehind(holder, queue, deadlines, deadline, channelPrefix, message)
  for _, waiter in ipairs(redis.call('lrange', queue, 1, 99)) do
    if waiter == holder or redis.pcall('publish', channelPrefix .. waiter, message) ~= 0 then
      return
    end
    if deadlineOf(deadlines, waiter) > deadline then
      setDeadline(deadlines, waiter, deadline)
    end
  end
end
