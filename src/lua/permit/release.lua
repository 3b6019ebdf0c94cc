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
local permits, released, held = {}, 0, 0
for n = 2, #ARGV do
  permits[n - 1] = bytesOf(ARGV[n])
  local expires = tonumber(redis.call('zscore', KEYS[2], permits[n - 1]) or -1)
  held = held + (expires > now and 1 or 0)
end
if #permits > 0 then
  released = redis.call('zrem', KEYS[2], unpack(permits))
end
local receivers = reclaim(KEYS[1], KEYS[2], ARGV[1], released, MAX_RECLAIMED)
if held < #ARGV - 1 then
  return nil
end
return receivers
