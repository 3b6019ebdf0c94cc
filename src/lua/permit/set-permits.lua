--[[ permit/set-permits: let there be so many permits in all, held or not. Once, however often it is sent,
     and not when it comes late.
     KEYS[1] semaphore  string: available permits; below 0 while more are held than there should be
     KEYS[2] leases     sorted set: permit -> epoch ms until which it is held
     KEYS[3] receipts   hash: operation -> its reply
     ARGV[1] permits    >= 0
     ARGV[2] channel    where waiters listen
     ARGV[3] operation  its number
     ARGV[4] openedAt   when it was opened, epoch ms
     Reply   integer    the available permits now
             array      it came too late: the time, epoch ms
     Source  RedissonPermitExpirableSemaphore.setPermitsAsync ]]
-- include receipts/keep
-- include receipts/once
-- include numbers/number-at
-- include semaphore/announce
-- include permit/bytes
-- include permit/reclaim
return once(KEYS[3], ARGV[3], ARGV[4], function()
  reclaim(KEYS[1], KEYS[2], ARGV[2], 0)
  local available = numberAt(KEYS[1])
  local missing = tonumber(ARGV[1]) - available - redis.call('zcard', KEYS[2])
  if redis.call('exists', KEYS[1]) == 1 and missing == 0 then
    return available
  end
  available = redis.call('incrby', KEYS[1], missing)
  if missing > 0 then
    announce(ARGV[2], available)
  end
  return available
end)
