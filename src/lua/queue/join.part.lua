-- include queue/offer
-- include queue/enqueue

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

-- Queues a holder, at the place that it had if it had one. Returns the place; or the reply of the script if the queue is full.
local function join(queue, clients, lock, holder, priority, place, most, now)
  local present, waiting = enqueue(queue, clients, holder, priority, place, most, now)
  if present then
    return present
  end
  local full = { 'FULL', waiting }
  for _, one in ipairs(holdersOf(lock)) do
    table.insert(full, one)
  end
  return full
end

-- The reply to a waiter: when to ask again, its place, and whether it is the first.
local function refusal(lock, queue, prefix, holder, place)
  if redis.call('zrange', queue, 0, 0)[1] ~= holder then
    -- a short lease may be an offer, to a client that does not answer
    local left = redis.call('pttl', lock)
    return { left <= ANSWER_MS and left or -1, place, 2 }
  end
  -- the ids of all Holdfast clients end like this
  local isOurs = string.find(holdersOf(lock)[1] or '', '401dfa57:', 1, true)
  return { leftFor(lock, prefix, holder), place, isOurs and 1 or 0 }
end
