-- include numbers/to-integer
-- include numbers/integer-at
-- include permit/reclaim

-- The permits whose ids are the arguments from a number on, the ends of their leases, and whether any has one: then it is a
-- repeat.
local function permitsFrom(leases, ARGV, from)
  local permits, ends, isRepeat = {}, {}, false
  for n = from, #ARGV do
    local id = bytesOf(ARGV[n])
    local held = redis.call('zscore', leases, id)
    table.insert(permits, id)
    table.insert(ends, held)
    isRepeat = isRepeat or held ~= false
  end
  return permits, ends, isRepeat
end

-- Takes permits, of which there are enough. In a repeat, permits that were given back since the first copy stay given back, and
-- no lease is shortened.
local function takePermits(semaphore, leases, permits, ends, isRepeat, expires)
  if not isRepeat then
    redis.call('decrby', semaphore, #permits)
  end
  for n, id in ipairs(permits) do
    if not isRepeat or ends[n] and tonumber(ends[n]) < expires then
      redis.call('zadd', leases, string.format('%d', expires), id)
    end
  end
  local left = redis.call('pttl', semaphore)
  if left > 0 then
    redis.call('pexpire', leases, left)
  end
end

-- How long until the next lease ends, ms (-1: not known).
local function nextEnd(leases)
  local first = redis.call('zrange', leases, 0, 0, 'withscores')
  local ends = toInteger(first[2])
  -- Redisson's "never": a permit without a lease
  if not ends or first[2] == '922337203685477' then
    return -1
  end
  return math.max(1, ends - now)
end
