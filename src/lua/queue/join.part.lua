-- include queue/offer

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
    if (believedUntil(clients, holder) or 0) <= now then
      redis.call('zrem', queue, holder)
    end
  end
end

-- Queues a holder, at the place that it had if it had one. Returns the place; or the reply of the script if the queue is full.
local function join(queue, clients, lock, holder, priority, place, most, now)
  local present = redis.call('zscore', queue, holder)
  if not present then
    local waiting = most >= 0 and place == '' and redis.call('zcard', queue)
    if waiting and waiting >= most then
      removeDead(queue, clients, now)
      waiting = redis.call('zcard', queue)
    end
    if waiting and waiting >= most then
      local full = { 'FULL', waiting }
      for _, one in ipairs(holdersOf(lock)) do
        table.insert(full, one)
      end
      return full
    end
    present = place == '' and lastPlace(queue, tonumber(priority)) or place
    redis.call('zadd', queue, present, holder)
  end
  believe(clients, holder, now + ALIVE_MS)
  redis.call('pexpire', queue, QUEUE_TTL_MS)
  return present
end

-- The reply to a waiter: when to ask again, its place, and whether it is the first.
local function refusal(lock, queue, prefix, holder, place)
  if redis.call('zrange', queue, 0, 0)[1] ~= holder then
    -- a short lease may be an offer, to a client that does not answer
    local left = redis.call('pttl', lock)
    return { left <= OFFER_MS and left or -1, place, 2 }
  end
  -- the ids of all Holdfast clients end like this
  local isOurs = string.find(holdersOf(lock)[1] or '', '401dfa57:', 1, true)
  return { leftFor(lock, prefix, holder), place, isOurs and 1 or 0 }
end
