--[[ string-lock/release: end the lease of an owner, and wake the waiters of Holdfast; others poll.
     KEYS[1] lock         string: the holder
     ARGV[1] holder       "<client id>:<owner id>"
     ARGV[2] channel      where waiters listen
     ARGV[3] message      what wakes them
     Reply   nil          this owner does not hold the lock
             integer      released; how many connections heard it (-1: publishing was refused)
     Source  the pattern of https://redis.io/commands/set: compare and delete ]]
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return nil
end
redis.call('del', KEYS[1])
local heard = redis.pcall('publish', ARGV[2], ARGV[3])
return type(heard) == 'number' and heard or -1
