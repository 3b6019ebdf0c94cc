--[[ semaphore/cancel: undo an acquire whose caller has left: give back what it took, if that semaphore still exists. An
     acquire that has not arrived yet will take nothing.
     KEYS[1] semaphore   string: available permits
     KEYS[2] replies     hash: operation -> stored reply
     KEYS[3] generation  string: which semaphore of this name it is
     ARGV[1] permits     what it asked for
     ARGV[2] operation   the number of the acquire
     ARGV[3] channel     the waiters' channel
     Reply   integer     1 given back, 0 there was nothing to give back ]]
-- include idempotency/keep-replies
-- include semaphore/announce-permits
-- include semaphore/generation
local taken = tonumber(redis.call('hget', KEYS[2], ARGV[2]) or 0)
local isOwed = taken ~= 0 and redis.call('exists', KEYS[1]) == 1 and isGeneration(KEYS[3], taken)
keepReplies(KEYS[2])
redis.call('hset', KEYS[2], ARGV[2], 0)
keepReplies(KEYS[2])
if not isOwed then
  return 0
end
announcePermits(ARGV[3], redis.call('incrby', KEYS[1], ARGV[1]))
return 1
