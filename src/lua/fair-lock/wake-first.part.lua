-- Wake the first in the queue. While nobody hears it (it died, or does not listen yet) the next one is woken, too: that
-- one finds who is missing. Answers how many heard it, -1 if publishing was refused.
local function wakeFirst(queue, channelPrefix, message)
  for _, waiter in ipairs(redis.call('lrange', queue, 0, 99)) do
    local heard = redis.pcall('publish', channelPrefix .. waiter, message)
    if type(heard) ~= 'number' then
      return -1
    elseif heard > 0 then
      return heard
    end
  end
  return 0
end
