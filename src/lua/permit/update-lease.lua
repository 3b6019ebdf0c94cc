--[[ permit/update-lease: set when the lease of a permit ends, sooner or later than before.
     KEYS[1] leases       sorted set: permit -> until when it is held, epoch ms
     ARGV[1] id           the permit: 32 hexadecimal digits
     ARGV[2] leaseTimeMs  ms from now, > 0
     Reply   integer      1 done, 0 it is not held
     Source  RedissonPermitExpirableSemaphore.updateLeaseTimeAsync ]]
-- include permit/permit-bytes
local permit = bytesOf(ARGV[1])
if tonumber(redis.call('zscore', KEYS[1], permit) or 0) <= now then
  return 0
end
redis.call('zadd', KEYS[1], string.format('%d', now + tonumber(ARGV[2])), permit)
return 1
