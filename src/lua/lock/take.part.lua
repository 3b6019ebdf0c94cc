-- include lease/create-lock

-- Takes the lock for a holder that does not have it. Returns nil, or what is left of the current lease, ms (-1: no
-- expiry), or an error. Idempotent, even if a copy arrives late: it never lowers the hold count or shortens the
-- lease.
local function take(lock, lease, holder)
  local left = redis.call('pttl', lock)
  if left ~= -2 then
    if redis.call('hexists', lock, holder) == 0 then
      return left
    end
    if left < tonumber(lease) then
      redis.call('pexpire', lock, lease)
    end
    return nil
  end
  return createLock(lock, lease, holder, 1)
end
