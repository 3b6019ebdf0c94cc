--[[ permit/inspect: how many permits are available and held, and for how long some of them.
     KEYS[1] semaphore  string: available permits
     KEYS[2] leases     sorted set: permit -> until when it is held, epoch ms
     ARGV[1] channel    the waiters' channel
     ARGV[2…] ids       permits: 32 hexadecimal digits each
     Reply   array      available permits, held permits, then for each id what is left of its lease, ms (-1: no end,
                        -2: not held)
     Source  RedissonPermitExpirableSemaphore.availablePermitsAsync, acquiredPermitsAsync, getLeaseTimeAsync ]]
-- include numbers/to-integer
-- include numbers/integer-at
-- include permit/reclaim
reclaim(KEYS[1], KEYS[2], ARGV[1], 0, MAX_RECLAIMED)
local expired = redis.call('zcount', KEYS[2], 0, now)
local found = { integerAt(KEYS[1]) + expired, redis.call('zcard', KEYS[2]) - expired }
for n = 2, #ARGV do
  local expires = redis.call('zscore', KEYS[2], bytesOf(ARGV[n]))
  if not expires then
    table.insert(found, -2)
  elseif expires == '922337203685477' or not toInteger(expires) then
    table.insert(found, -1)
  else
    table.insert(found, toInteger(expires) - now)
  end
end
return found
