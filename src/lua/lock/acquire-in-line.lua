--[[ lock/acquire-in-line: as lock/acquire; a client that is refused stands in line for the release.
     KEYS[1] lock         hash: holder -> hold count
     KEYS[2] waiters      list of tickets, first come first
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] holder       "<client id>:<owner id>"
     ARGV[3] ticket       "<client id>:<number>"
     ARGV[4] patienceMs   the line is forgotten when nobody has asked for so long
     ARGV[5] inboxes      what the channels of clients begin with
     ARGV[6] isLook       1: asked because nothing was heard for long; 0: for any other reason
     ARGV[7] waits        1: others of this client wait for the next turn, and stand in line; 0: nobody does
     Reply   nil          acquired
             array        lease left to the present holder, ms (-1: no expiry); where this ticket stands if the release
                          gives the turn to the first in line: 1 first, 2 behind others; 0 if that is not known ]]
-- include lock/take
-- include lock/line
local left = take(KEYS[1], ARGV[1], ARGV[2])
if left == nil then
  local removed = redis.pcall('lrem', KEYS[2], 0, ARGV[3])
  if ARGV[6] == '1' then
    -- Those ahead did not take their turn. Whoever is there asks again now, and is back in line; the others are not.
    for _ = 1, MOST_AT_ONCE do
      local ticket = redis.pcall('lpop', KEYS[2])
      if type(ticket) ~= 'string' then
        break
      end
      notify(ARGV[5], ticket, 'turn')
    end
  elseif type(removed) == 'number' and removed > 0 then
    -- No release gave the turn to this client, so none has told the one behind it that it is next.
    passTurn(KEYS[2], ARGV[5], ARGV[3], 'next')
  end
  if ARGV[7] == '1' then
    standInLine(KEYS[2], ARGV[3], ARGV[4])
  end
  return nil
elseif type(left) == 'table' then
  return left
end
standInLine(KEYS[2], ARGV[3], ARGV[4])
-- the end of the client id that all clients of Holdfast have
if redis.call('hlen', KEYS[1]) ~= 1 or not string.find(redis.call('hgetall', KEYS[1])[1], '401dfa57:', 1, true) then
  return { left, 0 }
end
return { left, redis.pcall('lindex', KEYS[2], 0) == ARGV[3] and 1 or 2 }
