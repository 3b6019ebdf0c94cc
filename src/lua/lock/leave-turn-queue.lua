--[[ lock/leave-turn-queue: remove the ticket of a client that no longer waits. If the lock is free the turn passes
     to the next client; otherwise the client that is first now is notified that it is next.
     KEYS[1] lock         hash: holder -> hold count
     KEYS[2] turnQueue    list: tickets of waiting clients, the next one first
     ARGV[1] ticket       "<client id>:<number>"
     ARGV[2] inboxPrefix  what the clients' channels begin with
     Reply   integer      1 ]]
-- include lock/turn-queue
redis.pcall('lrem', KEYS[2], 0, ARGV[1])
passTurn(KEYS[2], ARGV[2], ARGV[1], redis.call('pttl', KEYS[1]) == -2 and 'turn' or 'next')
return 1
