--[[ lock/acquire-queued: like lock/acquire; a client that is refused joins the turn queue.
     KEYS[1] lock         hash: holder -> hold count
     KEYS[2] turnQueue    list: tickets of waiting clients, the next one first
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] holder       "<client id>:<owner id>"
     ARGV[3] ticket       "<client id>:<number>"
     ARGV[4] queueTtlMs   the turn queue is deleted when no client has asked for this long
     ARGV[5] inboxPrefix  what the clients' channels begin with
     ARGV[6] isPoll       1: the client has received no message for long; 0: it asks for any other reason
     ARGV[7] hasWaiters   1: more callers of this client wait for the next turn, so it stays queued; 0: none
     Expires late, it takes nothing
     Reply   nil          acquired
             array        what is left of the current lease, ms (-1: no expiry); the place of this ticket if the release
                          will give the turn to the first one: 1 first, 2 behind others; otherwise 0 ]]
-- include lock/take
-- include lock/turn-queue
local left = take(KEYS[1], ARGV[1], ARGV[2])
if left == nil then
  local removed = redis.pcall('lrem', KEYS[2], 0, ARGV[3])
  if ARGV[6] == '1' then
    -- The clients ahead missed their turns. Those still alive ask again now, which queues them again.
    for _ = 1, TICKETS_PER_CALL do
      local ticket = redis.pcall('lpop', KEYS[2])
      if type(ticket) ~= 'string' then
        break
      end
      notify(ARGV[5], ticket, 'turn')
    end
  elseif type(removed) == 'number' and removed > 0 then
    -- No release gave this client the turn, so the client behind it was not notified that it is next.
    passTurn(KEYS[2], ARGV[5], ARGV[3], 'next')
  end
  if ARGV[7] == '1' then
    joinTurnQueue(KEYS[2], ARGV[3], ARGV[4])
  end
  return nil
elseif type(left) == 'table' then
  return left
end
joinTurnQueue(KEYS[2], ARGV[3], ARGV[4])
-- the ids of all Holdfast clients end like this
if redis.call('hlen', KEYS[1]) ~= 1 or not string.find(redis.call('hgetall', KEYS[1])[1], '401dfa57:', 1, true) then
  return { left, 0 }
end
return { left, redis.pcall('lindex', KEYS[2], 0) == ARGV[3] and 1 or 2 }
