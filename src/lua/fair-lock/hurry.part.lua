-- What the holders of one client begin with.
local function clientOf(holder)
  return string.match(holder, '^.*:') or holder
end

-- A waiter that was heard did not come when it was its turn, so its whole process may stand still. Its other places are
-- judged together: all are woken, and have until `grace` to ask. A fraction says so, as for the first in the queue.
local function hurry(queue, deadlines, client, grace, channelPrefix, message)
  for _, waiter in ipairs(redis.call('lrange', queue, 0, 999)) do
    if clientOf(waiter) == client then
      local deadline = tonumber(redis.call('zscore', deadlines, waiter) or 0)
      if deadline % 1 == 0 then
        redis.pcall('publish', channelPrefix .. waiter, message)
        redis.call('zadd', deadlines, string.format('%d.5', grace), waiter)
      end
    end
  end
end
