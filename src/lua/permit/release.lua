--[[ permit/release: give permits back, and notify waiters. Of several permits, those still held are given back even if
     others were lost.
     KEYS[1] semaphore  string: available permits
     KEYS[2] leases     sorted set: permit -> until when it is held, epoch ms
     ARGV[1] channel    the waiters' channel
     ARGV[2…] ids       the permits: 32 hexadecimal digits each
     Reply   nil        not all of them were still held
             integer    released; how many connections received the message (-1: publishing was refused)
     Source  RedissonPermitExpirableSemaphore.releaseAsync ]]
-- include permit/give-back
return giveBack(KEYS[1], KEYS[2], ARGV[1], ARGV, 2)
