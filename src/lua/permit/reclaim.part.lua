-- include permit/permit-bytes
-- include semaphore/announce-permits

-- Gives back the permits whose leases have ended (100 000 of them at most) and `more`, and notifies waiters if any are
-- available then. Returns how many connections received it, -1 if publishing was refused.
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
  return announcePermits(channel, redis.call('incrby', semaphore, returned))
end
