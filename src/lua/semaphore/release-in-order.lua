--[[ semaphore/release-in-order: as semaphore/release, and call the first waiters of the queue.
     KEYS[1] semaphore    string: available permits
     KEYS[2] replies      hash: operation -> stored reply
     KEYS[3] queue        sorted set: waiter -> its place
     KEYS[4] clients      sorted set: client -> until when it is believed to be alive; waiter -> when its call ends, epoch ms
     KEYS[5] generation   string: which semaphore of this name it is
     ARGV[1] permits      > 0
     ARGV[2] into         as of semaphore/release
     ARGV[3] channel      that of waiters that are not queued
     ARGV[4] inboxPrefix  what the clients' channels begin with
     ARGV[5] operation    its number
     ARGV[6] openedAt     when it was opened, epoch ms
     Reply   integer      as of semaphore/release
             array        it arrived too late: the time, epoch ms
     Source  RedissonSemaphore.releaseAsync, releaseIfExistsAsync: same keys but the queue and the clients ]]
-- include numbers/integer-at
-- include semaphore/give-back
-- include queue/call
local reply = giveBack(KEYS[1], KEYS[2], KEYS[5], ARGV[1], ARGV[2], ARGV[3], ARGV[5], ARGV[6])
callNext(KEYS[3], KEYS[4], '', ARGV[4], integerAt(KEYS[1]), epochMs())
return reply
