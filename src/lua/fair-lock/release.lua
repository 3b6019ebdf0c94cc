--[[ fair-lock/release: end the lease of an owner and wake the first in the queue. An owner that does not hold the lock,
     since the reply to its request was lost, leaves the queue.
     KEYS[1] lock           hash: holder -> hold count
     KEYS[2] queue          list: waiting holders, the next one first
     KEYS[3] deadlines      sorted set: waiting holder -> until when it is believed to be alive, epoch ms
     ARGV[1] holder         "<client id>:<owner id>"
     ARGV[2] channelPrefix  what the waiters' channels begin with, before the holder
     ARGV[3] message        what wakes them
     Reply   nil            this owner does not hold the lock
             integer        released; how many connections received the message (-1: publishing was refused)
     Source  RedissonFairLock.unlockInnerAsync, counter = 0 ]]
-- include fair-lock/leave-queue
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  leaveQueue(KEYS[1], KEYS[2], KEYS[3], ARGV[1], 0, ARGV[2], ARGV[3])
  return nil
end
redis.call('del', KEYS[1])
return wakeFirst(KEYS[2], KEYS[3], ARGV[2], ARGV[3])
