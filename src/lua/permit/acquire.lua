--[[ permit/acquire: take permits if there are enough, or say when the next lease ends. Runs twice without harm.
     KEYS[1] semaphore    string: available permits
     KEYS[2] leases       sorted set: permit -> epoch ms until which it is held
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] channel      where waiters listen
     ARGV[3…] ids         the permits: 32 hexadecimal digits each
     Reply   nil          acquired
             integer      when to ask again at the latest, ms (-1: not known)
     Source  RedissonPermitExpirableSemaphore.tryAcquireAsync: same keys ]]
-- include numbers/whole
-- include numbers/number-at
-- include semaphore/announce
-- include permit/bytes
-- include permit/reclaim
local expires = now + tonumber(ARGV[1])
reclaim(KEYS[1], KEYS[2], ARGV[2], 0)
-- It may come twice, and somebody may have given some of them back in between: those stay given back.
local isAgain = false
for n = 3, #ARGV do
  isAgain = isAgain or redis.call('zscore', KEYS[2], bytesOf(ARGV[n])) ~= false
end
if not isAgain then
  local permits = #ARGV - 2
  if numberAt(KEYS[1]) < permits then
    local first = redis.call('zrange', KEYS[2], 0, 0, 'withscores')
    local ends = whole(first[2])
    -- Redisson's "never", as a sign that there is no lease
    if not ends or first[2] == '922337203685477' then
      return -1
    end
    return math.max(1, ends - now)
  end
  redis.call('decrby', KEYS[1], permits)
end
for n = 3, #ARGV do
  redis.call('zadd', KEYS[2], isAgain and 'xx' or 'nx', string.format('%d', expires), bytesOf(ARGV[n]))
end
local left = redis.call('pttl', KEYS[1])
if left > 0 then
  redis.call('pexpire', KEYS[2], left)
end
return nil
