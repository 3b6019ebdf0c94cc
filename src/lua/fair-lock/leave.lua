--[[ fair-lock/leave: give up a place in the queue.
     KEYS[1] lock           hash: holder -> hold count
     KEYS[2] queue          list: waiting holders, the next one first
     KEYS[3] deadlines      sorted set: waiting holder -> epoch ms until which it is believed to be alive
     ARGV[1] holder         "<client id>:<owner id>"
     ARGV[2] waitTimeMs     the wait time it queued with, ms
     ARGV[3] channelPrefix  where waiters listen, without the holder
     ARGV[4] message        what wakes them
     Reply   integer        1 it was queued, 0 it was not
     Source  RedissonFairLock.acquireFailedAsync ]]
-- include fair-lock/wake-first
-- include fair-lock/shift
-- include fair-lock/quit
return quit(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3], ARGV[4])
