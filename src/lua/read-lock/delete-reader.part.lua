-- include read-lock/read-holds

-- Deletes a reader and its holds. Returns whether one of them had not ended; nil: it had more holds than one call
-- deletes, and keeps the first ones.
local function deleteReader(lock, prefix, reader, count)
  local holds, wasHeld = holdCount(count), false
  for index = math.max(1, holds - MAX_SCANNED + 1), holds do
    local KEYS = { readHold(prefix, reader, index) }
    wasHeld = redis.call('del', KEYS[1]) == 1 or wasHeld
  end
  if holds > MAX_SCANNED then
    redis.call('hset', lock, reader, holds - MAX_SCANNED)
    return nil
  end
  redis.call('hdel', lock, reader)
  return wasHeld
end
