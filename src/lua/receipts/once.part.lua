-- Do something once, however often the script is sent: its reply, a whole number, is kept under the number of the operation
-- for a while. And not when it comes late: an operation that was opened more than 100 s away from now, by the clock of Redis,
-- is not done, so that none outlives its kept reply. Then the reply is an array with the time. Needs receipts/keep.
local function once(receipts, operation, openedAt, action)
  local kept = redis.call('hget', receipts, operation)
  if kept then
    return tonumber(kept)
  end
  local time = redis.call('time')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  if math.abs(now - tonumber(openedAt)) > 100000 then
    return { now }
  end
  local reply = action()
  redis.call('hset', receipts, operation, string.format('%.0f', reply))
  keep(receipts)
  return reply
end
