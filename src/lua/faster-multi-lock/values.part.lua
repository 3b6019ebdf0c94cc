-- include time/now
-- include numbers/to-integer

local now = epochMs()
-- By how much a group outlives its values, ms. Redisson's acquire does not extend a group that has less than a
-- millisecond left: its grant then disappears with the group, and the next caller also gets the lock. That moment
-- must not be when waiters come: when a lease has ended, or a little later.
local SLACK = 10000

-- The holder of a value, and until when (epoch ms); nil if there is none or its lease is over. Then the third is whose
-- lease that was, if any.
local function ownerOf(group, value)
  local owner = redis.call('hget', group, value)
  local expiry = owner and toInteger(redis.call('hget', group, value .. ':' .. owner .. ':expire_time'))
  if expiry and expiry > now then
    return owner, expiry
  end
  return nil, nil, owner
end

-- Makes the lease of a value, which lasts until `expiry`, last at least as long as requested.
local function extendValue(group, value, owner, lease, expiry)
  if expiry < now + lease then
    redis.call('hset', group, value .. ':' .. owner .. ':expire_time', string.format('%d', now + lease))
  end
end

-- Makes a group outlive values whose leases end in this many ms.
local function outlive(group, leftMs)
  if redis.call('pttl', group) < leftMs + SLACK then
    redis.call('pexpire', group, leftMs + SLACK)
  end
end
