-- Notifies waiters how many permits are available, if any are. Returns how many connections received it, -1 if
-- publishing was refused.
local function announcePermits(channel, available)
  if available <= 0 then
    return 0
  end
  local receivers = redis.pcall('publish', channel, available)
  return type(receivers) == 'number' and receivers or -1
end
