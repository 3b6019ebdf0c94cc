--[[ permit/release-all: give permits back and notify waiters, if every one of them is held; otherwise none.
     KEYS[1] semaphore  string: available permits
     KEYS[2] leases     sorted set: permit -> until when it is held, epoch ms
     ARGV[1] channel    the waiters' channel
     ARGV[2…] ids       the permits, none twice: 32 hexadecimal digits each
     Reply   nil        not all of them were held
             integer    released; how many connections received the message (-1: publishing was refused)
     Source  RedissonPermitExpirableSemaphore.tryReleaseAsync of a list, whose message is how many were given back ]]
-- include permit/reclaim
local permits = {}
for n = 2, #ARGV do
  permits[n - 1] = bytesOf(ARGV[n])
  if tonumber(redis.call('zscore', KEYS[2], permits[n - 1]) or 0) <= now then
    return nil
  end
end
local released = redis.call('zrem', KEYS[2], unpack(permits))
return reclaim(KEYS[1], KEYS[2], ARGV[1], released, MAX_RECLAIMED)
