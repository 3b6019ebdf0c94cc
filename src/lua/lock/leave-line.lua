--[[ lock/leave-line: nobody waits any more under a ticket. If it was its turn, it is the next one's; else whoever is first
     now hears that it is.
     KEYS[1] lock         hash: holder -> hold count
     KEYS[2] waiters      list of tickets, first come first
     ARGV[1] ticket       "<client id>:<number>"
     ARGV[2] inboxes      what the channels of clients begin with
     Reply   integer      1 ]]
-- include lock/line
redis.pcall('lrem', KEYS[2], 0, ARGV[1])
passTurn(KEYS[2], ARGV[2], ARGV[1], redis.call('pttl', KEYS[1]) == -2 and 'turn' or 'next')
return 1
