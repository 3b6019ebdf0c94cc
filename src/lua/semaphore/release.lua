--[[ semaphore/release: give permits back, and notify waiters. Runs once, however many copies arrive, and not at all
     if it arrives late.
     KEYS[1] semaphore   string: available permits
     KEYS[2] replies     hash: operation -> stored reply
     KEYS[3] generation  string: which semaphore of this name it is
     ARGV[1] permits     > 0
     ARGV[2] into        create: any semaphore, and one is created if there is none; any: any that exists; otherwise the
                         generation that they were taken from
     ARGV[3] channel     the waiters' channel
     ARGV[4] operation   its number
     ARGV[5] openedAt    when it was opened, epoch ms
     Reply   integer     how many connections received the message; -1 publishing was refused, -2 no such semaphore
             array       it arrived too late: the time, epoch ms
     Source  RedissonSemaphore.releaseAsync, releaseIfExistsAsync ]]
-- include semaphore/give-back
return giveBack(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5])
