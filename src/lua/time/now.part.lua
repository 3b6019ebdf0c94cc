-- The server's time, epoch ms.
local function epochMs()
  local time = redis.call('time')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
