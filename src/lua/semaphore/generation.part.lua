-- A permit belongs to the semaphore it was taken from, not to a later one of the same name. Redisson knows no
-- generations, so this is the best knowledge there is: a number that changes whenever one of our scripts creates or
-- deletes a semaphore. 1: nothing is known, or no longer. Below 0: the semaphore has an expiry, and its generation
-- ends with it.
local function currentGeneration(generation)
  return tonumber(redis.call('get', generation) or 1) or 1
end

-- Starts a generation for the expiry of the semaphore, or a day if it has none: longer than permits are held.
local function startGeneration(generation, expiryMs)
  if generation == KEYS[1] then
    -- permits with ids cannot be returned to another semaphore
    return 1
  end
  local time = redis.call('time')
  local id = time[1] * 1000000 + time[2]
  if expiryMs > 0 then
    id = -id
  end
  redis.call('set', generation, string.format('%.0f', id), 'px', expiryMs > 0 and expiryMs or 86400000)
  return id
end

-- Whether the current semaphore is that of generation `id`, as far as is known.
local function isGeneration(generation, id)
  local current = currentGeneration(generation)
  return current == id or (current == 1 and id > 1)
end
