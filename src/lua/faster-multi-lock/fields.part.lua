local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Who holds a value, until when (epoch ms) and how often; nil if nobody does or the lease is over.
local function ownerOf(group, field)
  local owner = redis.call('hget', group, field)
  local expiry = owner and whole(redis.call('hget', group, field .. ':' .. owner .. ':expire_time'))
  if expiry and expiry > now then
    return owner, expiry, redis.call('hget', group, field .. ':' .. owner .. ':lock_count')
  end
end

-- The group outlives its values by this, ms. Redisson's acquire leaves a group alone that has less than a millisecond left:
-- who takes a value over in the moment that its lease ends would lose it with the group.
local SLACK = 25

-- Let a value last for at least a lease from now.
local function extend(group, field, owner, lease)
  local key = field .. ':' .. owner .. ':expire_time'
  if (whole(redis.call('hget', group, key)) or 0) < now + lease then
    redis.call('hset', group, key, string.format('%d', now + lease))
  end
  if redis.call('pttl', group) < lease + SLACK then
    redis.call('pexpire', group, lease + SLACK)
  end
end

-- Forget who has or had a value.
local function forget(group, field)
  local owner = redis.call('hget', group, field)
  if owner then
    redis.call('hdel', group, field, field .. ':' .. owner .. ':expire_time', field .. ':' .. owner .. ':lock_count')
  end
end
