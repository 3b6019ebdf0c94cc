--[[ lock/release-in-line: end the lease of an owner, and give the turn to the first in line. The message of an
     ordinary release is for those who know of no line.
     KEYS[1] lock         hash: holder -> hold count
     KEYS[2] waiters      list of tickets, first come first
     ARGV[1] holder       "<client id>:<owner id>"
     ARGV[2] channel      where those listen who know of no line
     ARGV[3] message      what wakes them
     ARGV[4] inboxes      what the channels of clients begin with
     ARGV[5] ticket       of others in this client; empty: nobody stands in line or is to
     ARGV[6] patienceMs   they stand in line from now on, which is forgotten when nobody has asked for so long; 0: they left
     Reply   nil          this owner does not hold the lock
             integer      released; how many others heard it (-1: publishing was refused) ]]
-- include lock/line
-- it is the only field: with it the lock goes
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
  return nil
end
if ARGV[6] == '0' then
  redis.pcall('lrem', KEYS[2], 0, ARGV[5])
elseif ARGV[5] ~= '' then
  standInLine(KEYS[2], ARGV[5], ARGV[6])
end
local others = passTurn(KEYS[2], ARGV[4], ARGV[5], 'turn')
local heard = redis.pcall('publish', ARGV[2], ARGV[3])
if others == -1 or type(heard) ~= 'number' then
  return -1
end
return others + heard
