--[[ semaphore/acquire: take permits if enough are available. Runs once, however many copies arrive, and not at all if
     it arrives late.
     KEYS[1] semaphore   string: available permits
     KEYS[2] replies     hash: operation -> stored reply
     KEYS[3] generation  string: which semaphore of this name it is
     ARGV[1] permits     > 0
     ARGV[2] operation   its number
     ARGV[3] openedAt    when it was opened, epoch ms
     Expires late, it takes nothing
     Reply   integer     0 refused; acquired: the generation (1: not known)
             array       it arrived too late: the time, epoch ms
     Source  RedissonSemaphore.tryAcquireAsync ]]
-- include semaphore/take
local available = integerAt(KEYS[1])
if available < tonumber(ARGV[1]) and redis.call('hexists', KEYS[2], ARGV[2]) == 0 then
  return 0
end
return takePermits(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3])
