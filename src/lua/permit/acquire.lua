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
-- include permit/take
local expires = now + tonumber(ARGV[1])
reclaim(KEYS[1], KEYS[2], ARGV[2], 0, math.max(MAX_RECLAIMED, #ARGV - 2))
local permits, ends, isRepeat = permitsFrom(KEYS[2], ARGV, 3)
if not isRepeat and integerAt(KEYS[1]) < #permits then
  return nextEnd(KEYS[2])
end
takePermits(KEYS[1], KEYS[2], permits, ends, isRepeat, expires)
return nil
