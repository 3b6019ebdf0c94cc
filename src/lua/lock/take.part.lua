-- Take the lock for a holder that does not have it. Answers nil, or the lease left to the present holder, ms (-1: no
-- expiry), or an error. Runs twice without harm, also late: what the owner has by then is never lowered or shortened.
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
  redis.call('hset', lock, holder, 1)
  local expires = redis.pcall('pexpire', lock, lease)
  if type(expires) == 'table' then
    -- refused (an ACL): nothing may stay that never ends
    redis.call('del', lock)
    return expires
  end
  return nil
end
