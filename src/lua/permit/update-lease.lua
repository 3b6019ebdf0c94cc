--[[ permit/update-lease: let the lease of a permit end then, be it sooner or later.
     KEYS[1] leases       sorted set: permit -> epoch ms until which it is held
     ARGV[1] id           the permit: 32 hexadecimal digits
     ARGV[2] leaseTimeMs  ms from now, > 0
     Reply   integer      1 done, 0 nobody holds it
     Source  RedissonPermitExpirableSemaphore.updateLeaseTimeAsync ]]
-- include permit/bytes
local permit = bytesOf(ARGV[1])
if tonumber(redis.call('zscore', KEYS[1], permit) or 0) <= now then
  return 0
end
redis.call('zadd', KEYS[1], string.format('%d', now + tonumber(ARGV[2])), permit)
return 1
