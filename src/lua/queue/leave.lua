--[[ queue/leave: remove a waiter from the queue of an ordered lock. If the lock was offered to it, the next one gets it.
     KEYS[1] lock         hash: mode -> read or write, reader -> hold count, "<writer>:write" -> hold count
     KEYS[2] queue        sorted set: waiting holder -> its place
     KEYS[3] clients      sorted set: client -> until when it is believed to be alive, epoch ms
     KEYS[4] offers       sorted set: holder -> until when it is offered the lock, epoch ms
     ARGV[1] holder       "<client id>:<owner id>", and ":write" after it for the exclusive side
     ARGV[2] prefix       what the keys of read holds begin with
     ARGV[3] inboxPrefix  what the clients' channels begin with
     Reply   integer      1 it was queued, or was offered the lock; 0 it was not
             "unfinished" there is more to do than one call does: call again
     Source  none ]]
-- include time/now
-- include queue/end-hold
local isOffered = redis.call('zscore', KEYS[4], ARGV[1])
local wasFirst = redis.call('zrange', KEYS[2], 0, 0)[1] == ARGV[1]
local wasQueued = redis.call('zrem', KEYS[2], ARGV[1])
if isOffered and endHold(KEYS[1], KEYS[2], KEYS[4], ARGV[2], ARGV[1]) == 'unfinished' then
  return 'unfinished'
end
if isOffered or wasFirst then
  grant(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[2], ARGV[3], epochMs())
end
return (isOffered or wasQueued == 1) and 1 or 0
