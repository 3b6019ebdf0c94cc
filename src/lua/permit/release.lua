--[[ permit/release: give permits back, and tell those who wait. Of several those that are held are given back, whatever
     became of the others.
     KEYS[1] semaphore  string: available permits
     KEYS[2] leases     sorted set: permit -> epoch ms until which it is held
     ARGV[1] channel    where waiters listen
     ARGV[2…] ids       the permits: 32 hexadecimal digits each
     Reply   nil        not all of them were held any more
             integer    released; how many connections heard it (-1: publishing was refused)
     Source  RedissonPermitExpirableSemaphore.releaseAsync ]]
-- include semaphore/announce
-- include permit/bytes
-- include permit/reclaim
local released, held = 0, 0
for n = 2, #ARGV do
  local permit = bytesOf(ARGV[n])
  local expires = tonumber(redis.call('zscore', KEYS[2], permit) or -1)
  if expires >= 0 then
    released = released + redis.call('zrem', KEYS[2], permit)
    held = held + (expires > now and 1 or 0)
  end
end
local heard = reclaim(KEYS[1], KEYS[2], ARGV[1], released)
if held < #ARGV - 1 then
  return nil
end
return heard
