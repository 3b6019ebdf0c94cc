--[[ lock/acquire-in-line: as lock/acquire; who is refused stands in line for the release.
     The commands of the line are called protected: without it a release wakes everybody.
     KEYS[1] lock         hash: holder -> hold count
     KEYS[2] waiters      list of tickets, first come first
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] holder       "<client id>:<owner id>"
     ARGV[3] ticket       what wakes this client, and nobody else
     ARGV[4] patienceMs   the line is forgotten when nobody has asked for so long
     Reply   nil          acquired
             integer      lease left to the present holder, ms (-1: no expiry) ]]
-- include lock/take
local left = take(KEYS[1], ARGV[1], ARGV[2])
if left == nil then
  redis.pcall('lrem', KEYS[2], 0, ARGV[3])
  return nil
end
if redis.pcall('lpos', KEYS[2], ARGV[3]) == false then
  local length = redis.pcall('rpush', KEYS[2], ARGV[3])
  -- so many clients there are not: somebody else wrote them, and each command on the list would take long
  if type(length) == 'number' and length > 4096 then
    redis.pcall('del', KEYS[2])
    redis.pcall('rpush', KEYS[2], ARGV[3])
  end
end
redis.pcall('pexpire', KEYS[2], ARGV[4])
return left
