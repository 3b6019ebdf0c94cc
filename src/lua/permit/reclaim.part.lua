-- include permit/permit-bytes
-- include semaphore/announce-permits

-- How many expired permits one call gives back, unless it needs more: Redis serves nobody else meanwhile.
local MAX_RECLAIMED = 200

-- Gives back `most` permits at most whose leases have ended, the earliest first, and `more`, and notifies waiters if any
-- are available then. Returns how many connections received it, -1 if publishing was refused.
local function reclaim(semaphore, leases, channel, more, most)
  local returned = more
  local expired = redis.call('zrangebyscore', leases, 0, now, 'limit', 0, most)
  if #expired > 0 then
    returned = returned + redis.call('zrem', leases, unpack(expired))
  end
  if returned == 0 then
    return 0
  end
  return announcePermits(channel, redis.call('incrby', semaphore, returned))
end
