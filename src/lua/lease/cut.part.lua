-- Makes a key last no longer than requested, ms. Never extends its lease.
local function cutLease(key, lease)
  if redis.call('pttl', key) > lease then
    redis.call('pexpire', key, lease)
  end
end
