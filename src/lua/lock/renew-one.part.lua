-- Renew a lock if this owner still holds it. Never shortens a lease, but for one that is longer than `longest`, ms; nil: for
-- none. Answers what is left of the lease, ms; 0 no longer this owner's; or an error.
local function renew_one(lock, holder, lease, longest)
  -- protected: one key that somebody overwrote with another type must not cost all the others their renewal
  local mine = redis.pcall('hexists', lock, holder)
  if mine == 1 then
    local left = redis.call('pttl', lock)
    if left < tonumber(lease) or longest and left > tonumber(longest) then
      redis.call('pexpire', lock, lease)
      left = tonumber(lease)
    end
    return left
  elseif mine == 0 or string.find(mine.err, 'WRONGTYPE', 1, true) then
    return 0
  end
  return mine
end
