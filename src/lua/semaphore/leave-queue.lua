--[[ semaphore/leave-queue: remove a waiter for permits from the queue, and call the first of the others. Idempotent.
     KEYS[1] semaphore    string: available permits
     KEYS[2] queue        sorted set: waiter -> its place
     KEYS[3] clients      sorted set: client -> until when it is believed to be alive; waiter -> when its call ends, epoch ms
     ARGV[1] waiter       "<client id>:<number>:<permits>"
     ARGV[2] inboxPrefix  what the clients' channels begin with
     Reply   integer      1
     Source  none: permits of Redisson have no order ]]
-- include numbers/integer-at
-- include queue/call
-- include time/now
callNext(KEYS[2], KEYS[3], ARGV[1], ARGV[2], integerAt(KEYS[1]), epochMs())
return 1
