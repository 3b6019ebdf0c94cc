-- Until when a waiter is believed to be alive, epoch ms.
local function deadlineOf(deadlines, waiter)
  return tonumber(redis.call('zscore', deadlines, waiter) or 0)
end

-- A fraction in a deadline says that the waiter was woken because it is its turn.
local function wasWoken(deadline)
  return deadline % 1 ~= 0
end

local function setDeadline(deadlines, waiter, deadline)
  redis.call('zadd', deadlines, string.format('%d', deadline), waiter)
end

local function setDeadlineOfWoken(deadlines, waiter, deadline)
  redis.call('zadd', deadlines, string.format('%d.5', deadline), waiter)
end
