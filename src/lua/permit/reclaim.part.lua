-- Give permits back whose leases are over (100 000 of them at most), and some more; tell those who wait if there are any then.
local function reclaim(semaphore, leases, channel, more)
  local returned = more
  for _ = 1, 100 do
    local expired = redis.call('zrangebyscore', leases, 0, now, 'limit', 0, 1000)
    if #expired > 0 then
      returned = returned + redis.call('zrem', leases, unpack(expired))
    end
    if #expired < 1000 then
      break
    end
  end
  if returned == 0 then
    return 0
  end
  return announce(channel, redis.call('incrby', semaphore, returned))
end
