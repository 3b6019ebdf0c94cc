-- Do something once, however often the script is sent: what it answered, a whole number, is kept under the number of the
-- operation.
local function once(receipts, operation, action)
  local kept = redis.call('hget', receipts, operation)
  if kept then
    return tonumber(kept)
  end
  local reply = action()
  redis.call('hset', receipts, operation, reply)
  redis.call('pexpire', receipts, 120000)
  return reply
end
