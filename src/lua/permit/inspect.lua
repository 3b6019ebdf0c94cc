--[[ permit/inspect: how many permits there are and are held, and for how long some of them.
     KEYS[1] semaphore  string: available permits
     KEYS[2] leases     sorted set: permit -> epoch ms until which it is held
     ARGV[1] channel    where waiters listen
     ARGV[2…] ids       permits: 32 hexadecimal digits each
     Reply   array      available permits, held permits, then ms left of each of these (-1: it never ends, -2: not held)
     Source  RedissonPermitExpirableSemaphore.availablePermitsAsync, acquiredPermitsAsync, getLeaseTimeAsync ]]
-- include numbers/whole
-- include numbers/number-at
-- include semaphore/announce
-- include permit/bytes
-- include permit/reclaim
reclaim(KEYS[1], KEYS[2], ARGV[1], 0)
local found = { numberAt(KEYS[1]), redis.call('zcard', KEYS[2]) }
for n = 2, #ARGV do
  local expires = redis.call('zscore', KEYS[2], bytesOf(ARGV[n]))
  if not expires then
    table.insert(found, -2)
  elseif expires == '922337203685477' or not whole(expires) then
    table.insert(found, -1)
  else
    table.insert(found, whole(expires) - now)
  end
end
return found
