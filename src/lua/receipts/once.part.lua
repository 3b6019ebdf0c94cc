-- Do something once, however often the script is sent: its reply, a whole number, is kept under the number of the operation.
-- What was opened more than 100 s ago by the clock of Redis is not done, so that no copy outlives the kept reply; nor is what
-- was opened in the future, beyond what clocks may differ by. Then the reply is an array with the time.
local function once(receipts, operation, openedAt, action)
  local kept = redis.call('hget', receipts, operation)
  if kept then
    return tonumber(kept)
  end
  local time = redis.call('time')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local age = now - tonumber(openedAt)
  if age > 100000 or age < -10000 then
    return { now }
  end
  local reply = action()
  redis.call('hset', receipts, operation, string.format('%.0f', reply))
  redis.call('pexpire', receipts, 120000)
  return reply
end
