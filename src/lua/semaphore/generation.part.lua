-- A permit belongs to the semaphore that it was taken from, and not to a later one of the same name. Redisson does not know
-- of generations, so this is what is known: a number that changes whenever a script of ours creates or deletes a semaphore.
-- 1: nothing is known, or not any more. Below 0: the semaphore has an expiry, and its generation ends with it.
local function currentGeneration(generation)
  return tonumber(redis.call('get', generation) or 1) or 1
end

-- Begin a generation, for the expiry of the semaphore; if it has none the key is kept for a day, longer than permits are held.
local function beginGeneration(generation, expiryMs)
  if generation == KEYS[1] then
    return 1 -- permits with ids cannot go to another semaphore
  end
  local time = redis.call('time')
  local begun = time[1] * 1000000 + time[2]
  if expiryMs > 0 then
    begun = -begun
  end
  redis.call('set', generation, string.format('%.0f', begun), 'px', expiryMs > 0 and expiryMs or 86400000)
  return begun
end

-- Whether the semaphore that is there is that of the generation `id`, as far as is known.
local function isStill(generation, id)
  local current = currentGeneration(generation)
  return current == id or (current == 1 and id > 1)
end
