-- include queue/places

-- Some of the holders of a lock, each with ":write" after it if it writes.
local function holdersOf(lock)
  local found, fields = {}, redis.call('hscan', lock, '0', 'count', 10)[2]
  for n = 1, #fields, 2 do
    if fields[n] ~= 'mode' then
      table.insert(found, fields[n])
    end
  end
  return found
end

-- Removes waiters of clients of which nothing was heard for long.
local function removeDead(queue, clients, now)
  for _, holder in ipairs(redis.call('zrange', queue, 0, STEPS - 1)) do
    if not isAlive(clients, holder, now) then
      redis.call('zrem', queue, holder)
    end
  end
end

-- Queues a holder, at the place that it had if it had one. Returns the reply of the script if the queue is full, else nil.
local function join(queue, clients, lock, holder, priority, place, most, now)
  if not redis.call('zscore', queue, holder) then
    if most >= 0 and redis.call('zcard', queue) >= most then
      removeDead(queue, clients, now)
    end
    local waiting = redis.call('zcard', queue)
    if most >= 0 and place == '' and waiting >= most then
      local full = { 'FULL', waiting }
      for _, one in ipairs(holdersOf(lock)) do
        table.insert(full, one)
      end
      return full
    end
    redis.call('zadd', queue, place == '' and lastPlace(queue, tonumber(priority)) or place, holder)
  end
  redis.call('zadd', clients, now + ALIVE_MS, clientOf(holder))
  redis.call('pexpire', queue, QUEUE_TTL_MS)
  redis.call('pexpire', clients, QUEUE_TTL_MS)
  return nil
end
