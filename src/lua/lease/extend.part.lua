-- Makes a key last at least as long as requested, ms. Never shortens its lease.
local function extendLease(key, lease)
  if redis.call('pttl', key) < tonumber(lease) then
    redis.call('pexpire', key, lease)
  end
end
