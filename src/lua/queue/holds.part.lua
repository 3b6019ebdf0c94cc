-- include queue/places
-- include lease/create-lock
-- include lease/extend
-- include read-lock/left-for-writer
-- include read-lock/extend-hold

-- How long others keep a holder out of the lock, ms (-1: no expiry); -2: nobody does.
local function leftFor(lock, prefix, holder)
  local left = redis.call('pttl', lock)
  if left == -2 or prefix == '' then
    return left
  elseif isAlone(prefix, holder) then
    return leftForWriter(lock, prefix, left)
  end
  local isOpen = redis.call('hget', lock, 'mode') == 'read' or redis.call('hexists', lock, holder .. ':write') == 1
  return isOpen and -2 or left
end

-- Gives the lock to a holder that nobody keeps out. Returns an error if the lease is refused, else nil.
local function give(lock, prefix, holder, lease)
  if prefix == '' then
    return createLock(lock, lease, holder, 1)
  elseif isAlone(prefix, holder) then
    return createLock(lock, lease, 'mode', 'write', holder, 1)
  end
  -- first the key that ends by itself, whatever is refused after it
  extendHold(prefix, holder, 1, lease)
  if redis.call('pttl', lock) == -2 then
    return createLock(lock, lease, 'mode', 'read', holder, 1)
  end
  redis.call('hset', lock, holder, 1)
  extendLease(lock, lease)
  return nil
end

-- Makes a hold last at least as long as requested, be it an offer or more. Returns false: there is none.
local function confirm(lock, clients, prefix, holder, lease, now)
  local count = redis.call('hget', lock, holder)
  if not count or not isAlone(prefix, holder) and not isReading(prefix, holder, count) then
    return false
  end
  if not isAlone(prefix, holder) then
    extendHold(prefix, holder, 1, lease)
  end
  extendLease(lock, lease)
  if redis.call('exists', clients) == 1 then
    believe(clients, holder, now + ALIVE_MS)
  end
  return true
end
