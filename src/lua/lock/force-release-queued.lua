--[[ lock/force-release-queued: like lock/force-release, and give the turn to the first client in the turn queue.
     KEYS[1] lock         hash: holder -> hold count
     KEYS[2] turnQueue    list: tickets of waiting clients, the next one first
     ARGV[1] channel      the channel of waiters that are not in the turn queue
     ARGV[2] message      what wakes them
     ARGV[3] inboxPrefix  what the clients' channels begin with
     Reply   integer      1 it was held, 0 it was free ]]
-- include lock/delete-lock
-- include lock/turn-queue
local isDeleted, reply = deleteLock(KEYS[1])
if not isDeleted then
  return reply
end
passTurn(KEYS[2], ARGV[3], '', 'turn')
redis.pcall('publish', ARGV[1], ARGV[2])
return 1
