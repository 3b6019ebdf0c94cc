-- include idempotency/run-once
-- include semaphore/announce-permits
-- include semaphore/generation

-- Gives permits back into a semaphore, and notifies waiters. Runs once. Returns how many connections received the message; -1
-- publishing was refused, -2 there is no such semaphore; an array: it arrived too late.
local function giveBack(semaphore, replies, generation, permits, into, channel, operation, openedAt)
  return runOnce(replies, operation, openedAt, function()
    keepReplies(replies)
    local exists = redis.call('exists', semaphore) == 1
    local id = tonumber(into)
    if into ~= 'create' and not exists or id and not isGeneration(generation, id) then
      return -2
    end
    local available = redis.call('incrby', semaphore, permits)
    if not exists then
      startGeneration(generation, 0)
    end
    return announcePermits(channel, available)
  end)
end
