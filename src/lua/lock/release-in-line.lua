--[[ lock/release-in-line: end the possession of an owner, and wake the first in line. Everybody hears whose turn it is,
     and then the message of an ordinary release, which is for those who know of no line.
     KEYS[1] lock         hash: holder -> hold count
     KEYS[2] waiters      list of tickets, first come first
     ARGV[1] holder       "<client id>:<owner id>"
     ARGV[2] channel      where waiters listen
     ARGV[3] message      what wakes them
     ARGV[4] ticket       of others in this client; empty: nobody stands in line or is to
     ARGV[5] patienceMs   they stand in line from now on, which is forgotten when nobody has asked for so long; 0: they left
     Reply   nil          this owner does not hold the lock
             integer      released; how many connections heard it (-1: publishing was refused) ]]
-- it is the only field: with it the lock goes
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
  return nil
end
if ARGV[5] == '0' then
  redis.pcall('lrem', KEYS[2], 0, ARGV[4])
elseif ARGV[4] ~= '' then
  if redis.pcall('lpos', KEYS[2], ARGV[4]) == false then
    redis.pcall('rpush', KEYS[2], ARGV[4])
  end
  redis.pcall('pexpire', KEYS[2], ARGV[5])
end
local first = redis.pcall('lpop', KEYS[2])
if type(first) == 'string' then
  redis.pcall('publish', ARGV[2], first)
end
local heard = redis.pcall('publish', ARGV[2], ARGV[3])
if type(heard) == 'number' then
  return heard
end
return -1
