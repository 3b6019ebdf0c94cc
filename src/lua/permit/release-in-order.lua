--[[ permit/release-in-order: as permit/release, remove the waiter for these permits from the queue, and call the first of the
     others.
     KEYS[1] semaphore    string: available permits
     KEYS[2] leases       sorted set: permit -> until when it is held, epoch ms
     KEYS[3] queue        sorted set: waiter -> its place
     KEYS[4] clients      sorted set: client -> until when it is believed to be alive; waiter -> when its call ends, epoch ms
     ARGV[1] channel      that of waiters that are not queued
     ARGV[2] waiter       "<client id>:<number>:<permits>"; empty: not known
     ARGV[3] inboxPrefix  what the clients' channels begin with
     ARGV[4…] ids         the permits: 32 hexadecimal digits each
     Reply   nil          not all of them were still held
             integer      as of permit/release
     Source  RedissonPermitExpirableSemaphore.releaseAsync: the first two keys are the same ]]
-- include numbers/integer-at
-- include permit/give-back
-- include queue/call
local receivers = giveBack(KEYS[1], KEYS[2], ARGV[1], ARGV, 4)
callNext(KEYS[3], KEYS[4], ARGV[2], ARGV[3], integerAt(KEYS[1]), now)
return receivers
