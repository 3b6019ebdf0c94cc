--[[ permit/release: give permits back, and notify waiters. Of several permits, those still held are given back even if
     others were lost.
     KEYS[1] semaphore  string: available permits
     KEYS[2] leases     sorted set: permit -> until when it is held, epoch ms
     ARGV[1] channel    the waiters' channel
     ARGV[2…] ids       the permits: 32 hexadecimal digits each
     Reply   nil        not all of them were still held
             integer    released; how many connections received the message (-1: publishing was refused)
     Source  RedissonPermitExpirableSemaphore.releaseAsync ]]
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
local receivers = reclaim(KEYS[1], KEYS[2], ARGV[1], released)
if held < #ARGV - 1 then
  return nil
end
return receivers
