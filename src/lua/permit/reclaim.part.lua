-- Give permits back whose leases are over, and some more; tell those who wait if there are any then.
local function reclaim(semaphore, leases, channel, more)
  local returned = more
  repeat
    local expired = redis.call('zrangebyscore', leases, 0, now, 'limit', 0, 1000)
    if #expired > 0 then
      returned = returned + redis.call('zrem', leases, unpack(expired))
    end
  until #expired < 1000
  if returned == 0 then
    return 0
  end
  return announce(channel, redis.call('incrby', semaphore, returned))
end
