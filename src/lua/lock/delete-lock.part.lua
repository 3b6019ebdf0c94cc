-- Whether a hash is a lock with one holder: the holder's field with a hold count, and no other.
local function hasSingleHolder(lock)
  return redis.call('hlen', lock) == 1 and string.find(redis.call('hgetall', lock)[2], '^%d+$') ~= nil
end

-- Deletes a lock, whoever holds it. Returns whether it was deleted, and the reply or error if not.
local function deleteLock(lock)
  if redis.call('type', lock).ok ~= 'hash' then
    -- a key of another type is somebody's data: HLEN replies with a WRONGTYPE error that names it, or 0 if there is
    -- none
    return false, redis.call('hlen', lock)
  end
  if not hasSingleHolder(lock) then
    return false, redis.error_reply('WRONGTYPE the hash is not a lock of this kind: a lock of another kind, or data')
  end
  redis.call('del', lock)
  return true
end
