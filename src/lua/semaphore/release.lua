--[[ semaphore/release: give permits back, and notify waiters. Runs once, however many copies arrive, and not at all
     if it arrives late.
     KEYS[1] semaphore   string: available permits
     KEYS[2] replies     hash: operation -> stored reply
     KEYS[3] generation  string: which semaphore of this name it is
     ARGV[1] permits     > 0
     ARGV[2] into        create: any semaphore, and one is created if there is none; any: any that exists; otherwise the
                         generation that they were taken from
     ARGV[3] channel     the waiters' channel
     ARGV[4] operation   its number
     ARGV[5] openedAt    when it was opened, epoch ms
     Reply   integer     how many connections received the message; -1 publishing was refused, -2 no such semaphore
             array       it arrived too late: the time, epoch ms
     Source  RedissonSemaphore.releaseAsync, releaseIfExistsAsync ]]
-- include idempotency/run-once
-- include semaphore/announce-permits
-- include semaphore/generation
return runOnce(KEYS[2], ARGV[4], ARGV[5], function()
  keepReplies(KEYS[2])
  local exists = redis.call('exists', KEYS[1]) == 1
  local id = tonumber(ARGV[2])
  if ARGV[2] ~= 'create' and not exists or id and not isGeneration(KEYS[3], id) then
    return -2
  end
  local available = redis.call('incrby', KEYS[1], ARGV[1])
  if not exists then
    startGeneration(KEYS[3], 0)
  end
  return announcePermits(ARGV[3], available)
end)
