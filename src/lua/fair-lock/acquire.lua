--[[ fair-lock/acquire: take the lock if it is this owner's turn; otherwise queue the owner, and return when it should
     ask again. Idempotent. All times are the server's. Waiters are checked only when the lock is free and it is their
     turn. Until the waiter whose turn it is has come, the others ask every second: it may take the lock and then die.
     KEYS[1] lock           hash: holder -> hold count
     KEYS[2] queue          list: waiting holders, the next one first
     KEYS[3] deadlines      sorted set: waiting holder -> until when it is believed to be alive, epoch ms
     ARGV[1] leaseTimeMs    ms, > 0
     ARGV[2] holder         "<client id>:<owner id>"
     ARGV[3] waitTimeMs     ms, > 0: how long it will wait in all
     ARGV[4] isQueueing     1; 0: if refused, it does not join the queue
     ARGV[5] channelPrefix  what the waiters' channels begin with, before the holder
     ARGV[6] message        what wakes them
     ARGV[7] maxWaiters     how many may be queued before it; -1: any number
     Expires late, it takes nothing
     Reply   nil            acquired
             integer        when to ask again at the latest, ms from now (-1: not known)
             array          "FULL"; how many wait; and the holder
     Source  RedissonFairLock.tryLockInnerAsync: same keys, and deadlines that it understands ]]
-- include time/now
-- include lease/create-lock
-- include fair-lock/skip-dead
-- include fair-lock/lower-last
-- include fair-lock/join-queue
local lease, holder, wait = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])

local left = redis.call('pttl', KEYS[1])
if left ~= -2 and redis.call('hexists', KEYS[1], holder) == 1 then
  if left < lease then
    redis.call('pexpire', KEYS[1], lease)
  end
  return nil
end

local now = epochMs()
if left == -2 then
  local first, delay = skipDead(KEYS[2], KEYS[3], holder, now, ARGV[5], ARGV[6])
  if not first or first == holder then
    local refused = createLock(KEYS[1], lease, holder, 1)
    if not refused and first then
      redis.call('lpop', KEYS[2])
      redis.call('zrem', KEYS[3], holder)
      lowerLast(KEYS[2], KEYS[3], wait)
    end
    return refused
  end
  left = delay
end

local waiting = ARGV[7] ~= '-1' and redis.call('llen', KEYS[2])
if ARGV[4] ~= '0' and waiting and waiting >= tonumber(ARGV[7]) and not redis.call('zscore', KEYS[3], holder) then
  return { 'FULL', waiting, redis.call('hgetall', KEYS[1])[1] }
elseif ARGV[4] ~= '0' then
  joinQueue(KEYS[2], KEYS[3], holder, wait, now, left)
end
return left
