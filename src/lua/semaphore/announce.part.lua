-- Tell those who wait how many permits there are. Answers how many heard it, -1 if publishing was refused.
local function announce(channel, available)
  if available <= 0 then
    return 0
  end
  local heard = redis.pcall('publish', channel, available)
  return type(heard) == 'number' and heard or -1
end
