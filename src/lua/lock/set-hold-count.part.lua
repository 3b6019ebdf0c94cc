-- include lease/extend

-- Sets the hold count of a holder, and makes the lease last at least as long as requested. Never shortens it.
-- Returns 1, or 0 if it does not hold the lock.
local function setHoldCount(lock, lease, holder, count)
  if redis.call('hexists', lock, holder) == 0 then
    return 0
  end
  redis.call('hset', lock, holder, count)
  extendLease(lock, lease)
  return 1
end
