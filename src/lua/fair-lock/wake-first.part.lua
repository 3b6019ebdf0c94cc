-- Wakes the first waiter in the queue; if it is not subscribed (it died, or has not subscribed yet) the next one,
-- too, which then checks the others. Returns how many connections received it, -1 if publishing was refused.
local function wakeFirst(queue, channelPrefix, message)
  for _, waiter in ipairs(redis.call('lrange', queue, 0, 99)) do
    local receivers = redis.pcall('publish', channelPrefix .. waiter, message)
    if type(receivers) ~= 'number' then
      return -1
    elseif receivers > 0 then
      return receivers
    end
  end
  return 0
end
