-- include time/now
-- include numbers/to-integer

local now = epochMs()
-- By how much a group outlives its values, ms. Redisson's acquire does not extend a group that has less than a
-- millisecond left: what it grants then disappears with the group, and the next one gets it, too. So that moment must
-- not be when waiters come: when a lease has ended, or a little later.
local SLACK = 10000

-- The holder of a value, until when (epoch ms) and its hold count; nil if there is none or its lease is over.
local function ownerOf(group, value)
  local owner = redis.call('hget', group, value)
  local expiry = owner and toInteger(redis.call('hget', group, value .. ':' .. owner .. ':expire_time'))
  if expiry and expiry > now then
    return owner, expiry, redis.call('hget', group, value .. ':' .. owner .. ':lock_count')
  end
end

-- Makes a group outlive values whose leases end in this many ms.
local function outlive(group, leftMs)
  if redis.call('pttl', group) < leftMs + SLACK then
    redis.call('pexpire', group, leftMs + SLACK)
  end
end

-- Makes the lease of a value last at least as long as requested.
local function extendValue(group, value, owner, lease)
  local field = value .. ':' .. owner .. ':expire_time'
  if (toInteger(redis.call('hget', group, field)) or 0) < now + lease then
    redis.call('hset', group, field, string.format('%d', now + lease))
  end
  outlive(group, lease)
end

-- Deletes a value and all fields of its last owner.
local function deleteValue(group, value)
  local owner = redis.call('hget', group, value)
  if owner then
    redis.call('hdel', group, value, value .. ':' .. owner .. ':expire_time', value .. ':' .. owner .. ':lock_count')
  end
end
