--[[ lock/release-queued: end the lease of an owner, and give the turn to the first client in the turn queue. Other
     waiters get the message of an ordinary release.
     KEYS[1] lock         hash: holder -> hold count
     KEYS[2] turnQueue    list: tickets of waiting clients, the next one first
     ARGV[1] holder       "<client id>:<owner id>"
     ARGV[2] channel      the channel of waiters that are not in the turn queue
     ARGV[3] message      what wakes them
     ARGV[4] inboxPrefix  what the clients' channels begin with
     ARGV[5] ticket       of this client; empty: it has none
     ARGV[6] queueTtlMs   > 0: the ticket joins the turn queue, which is deleted when no client has asked for this long;
                          0: the ticket is removed
     Reply   nil          this owner does not hold the lock
             integer      released; how many others were notified (-1: publishing was refused) ]]
-- include lock/turn-queue
-- the only field: the lock goes with it
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
  return nil
end
if ARGV[6] == '0' then
  redis.pcall('lrem', KEYS[2], 0, ARGV[5])
elseif ARGV[5] ~= '' then
  joinTurnQueue(KEYS[2], ARGV[5], ARGV[6])
end
local others = passTurn(KEYS[2], ARGV[4], ARGV[5], 'turn')
local receivers = redis.pcall('publish', ARGV[2], ARGV[3])
if others == -1 or type(receivers) ~= 'number' then
  return -1
end
return others + receivers
