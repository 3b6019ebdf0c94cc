--[[ string-lock/release: end the lease of an owner, and wake Holdfast's waiters; others poll.
     KEYS[1] lock         string: the holder
     ARGV[1] holder       "<client id>:<owner id>"
     ARGV[2] channel      the waiters' channel
     ARGV[3] message      what wakes them
     Reply   nil          this owner does not hold the lock
             integer      released; how many connections received the message (-1: publishing was refused)
     Source  the pattern of https://redis.io/commands/set: compare and delete ]]
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return nil
end
redis.call('del', KEYS[1])
local receivers = redis.pcall('publish', ARGV[2], ARGV[3])
return type(receivers) == 'number' and receivers or -1
