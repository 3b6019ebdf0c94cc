--[[ permit/set-permits: set how many permits there are in all, held or not. Runs once, however many copies arrive,
     and not at all if it arrives late.
     KEYS[1] semaphore  string: available permits; below 0 while too many are held
     KEYS[2] leases     sorted set: permit -> until when it is held, epoch ms
     KEYS[3] replies    hash: operation -> stored reply
     ARGV[1] permits    >= 0
     ARGV[2] channel    the waiters' channel
     ARGV[3] operation  its number
     ARGV[4] openedAt   when it was opened, epoch ms
     Reply   integer    the resulting number of available permits
             array      it arrived too late: the time, epoch ms
     Source  RedissonPermitExpirableSemaphore.setPermitsAsync ]]
-- include idempotency/run-once
-- include numbers/integer-at
-- include permit/reclaim
return runOnce(KEYS[3], ARGV[3], ARGV[4], function()
  reclaim(KEYS[1], KEYS[2], ARGV[2], 0, MAX_RECLAIMED)
  local available = integerAt(KEYS[1])
  local missing = tonumber(ARGV[1]) - available - redis.call('zcard', KEYS[2])
  if redis.call('exists', KEYS[1]) == 1 and missing == 0 then
    return available
  end
  available = redis.call('incrby', KEYS[1], missing)
  if missing > 0 then
    announcePermits(ARGV[2], available)
  end
  return available
end)
