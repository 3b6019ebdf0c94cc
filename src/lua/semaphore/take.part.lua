-- include numbers/integer-at
-- include idempotency/run-once
-- include semaphore/generation

-- Takes permits, of which there are enough. Runs once. Returns the generation (1: not known); an array: it arrived too late.
local function takePermits(semaphore, replies, generation, permits, operation, openedAt)
  return runOnce(replies, operation, openedAt, function()
    local id = currentGeneration(generation)
    local expiryMs = redis.call('pttl', semaphore)
    if expiryMs >= 0 and id > 0 then
      -- created by Redisson
      id = startGeneration(generation, math.max(1, expiryMs))
    end
    redis.call('decrby', semaphore, permits)
    return id
  end)
end
