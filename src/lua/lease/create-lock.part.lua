-- Creates a lock with fields and a lease. Returns an error if the lease is refused (an ACL without PEXPIRE), else nil.
local function createLock(lock, lease, ...)
  redis.call('hset', lock, ...)
  local expires = redis.pcall('pexpire', lock, lease)
  if type(expires) == 'table' then
    -- a lock without a lease would stay forever
    redis.call('del', lock)
    return expires
  end
  return nil
end
