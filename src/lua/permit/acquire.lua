--[[ permit/acquire: take permits if enough are available, or return when the next lease ends. Idempotent.
     KEYS[1] semaphore    string: available permits
     KEYS[2] leases       sorted set: permit -> until when it is held, epoch ms
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] channel      the waiters' channel
     ARGV[3…] ids         the permits: 32 hexadecimal digits each
     Expires late, it takes nothing
     Reply   nil          acquired
             integer      when to ask again at the latest, ms from now (-1: not known)
     Source  RedissonPermitExpirableSemaphore.tryAcquireAsync: same keys ]]
-- include numbers/to-integer
-- include numbers/integer-at
-- include permit/reclaim
local expires = now + tonumber(ARGV[1])
reclaim(KEYS[1], KEYS[2], ARGV[2], 0, math.max(MAX_RECLAIMED, #ARGV - 2))
-- In a repeat, permits that were given back since the first copy stay given back, and no lease is shortened.
local isRepeat, ids, held = false, {}, {}
for n = 1, #ARGV - 2 do
  ids[n] = bytesOf(ARGV[n + 2])
  held[n] = redis.call('zscore', KEYS[2], ids[n])
  isRepeat = isRepeat or held[n] ~= false
end
if not isRepeat then
  if integerAt(KEYS[1]) < #ids then
    local first = redis.call('zrange', KEYS[2], 0, 0, 'withscores')
    local ends = toInteger(first[2])
    -- Redisson's "never": a permit without a lease
    if not ends or first[2] == '922337203685477' then
      return -1
    end
    return math.max(1, ends - now)
  end
  redis.call('decrby', KEYS[1], #ids)
end
for n, id in ipairs(ids) do
  if not isRepeat or held[n] and tonumber(held[n]) < expires then
    redis.call('zadd', KEYS[2], string.format('%d', expires), id)
  end
end
local left = redis.call('pttl', KEYS[1])
if left > 0 then
  redis.call('pexpire', KEYS[2], left)
end
return nil
