-- Renews a lock if this owner still holds it. Never shortens the lease, unless it is longer than `longest`, ms (nil: no
-- limit). Returns what is left of the lease, ms; 0 if this owner no longer holds it; or an error.
local function renewOne(lock, holder, lease, longest)
  -- protected: a key that somebody overwrote with another type must not cost all other locks their renewal
  local isHeld = redis.pcall('hexists', lock, holder)
  if isHeld == 1 then
    local left = redis.call('pttl', lock)
    if left < tonumber(lease) or longest and left > tonumber(longest) then
      redis.call('pexpire', lock, lease)
      left = tonumber(lease)
    end
    return left
  elseif isHeld == 0 or string.find(isHeld.err, 'WRONGTYPE', 1, true) then
    return 0
  end
  return isHeld
end
