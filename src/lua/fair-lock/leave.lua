--[[ fair-lock/leave: remove a waiter from the queue.
     KEYS[1] lock           hash: holder -> hold count
     KEYS[2] queue          list: waiting holders, the next one first
     KEYS[3] deadlines      sorted set: waiting holder -> until when it is believed to be alive, epoch ms
     ARGV[1] holder         "<client id>:<owner id>"
     ARGV[2] waitTimeMs     the wait time with which it was queued, ms
     ARGV[3] channelPrefix  what the waiters' channels begin with, before the holder
     ARGV[4] message        what wakes them
     Reply   integer        1 it was queued, 0 it was not
     Source  RedissonFairLock.acquireFailedAsync ]]
-- include fair-lock/leave-queue
return leaveQueue(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3], ARGV[4])
