-- include time/now
-- include idempotency/keep-replies

-- Runs an action once, however many copies of the script arrive: its reply, an integer, is stored under the number of
-- the operation, and copies return it. An operation that was opened more than 100 s from now, by the clock of Redis,
-- is not run: its stored reply may have expired. Then the reply is an array with the time.
local function runOnce(replies, operation, openedAt, action)
  local stored = redis.call('hget', replies, operation)
  if stored then
    return tonumber(stored)
  end
  local now = epochMs()
  if math.abs(now - tonumber(openedAt)) > 100000 then
    return { now }
  end
  local reply = action()
  if reply == 'unfinished' then
    -- the next call continues it
    return reply
  end
  redis.call('hset', replies, operation, string.format('%.0f', reply))
  keepReplies(replies)
  return reply
end
