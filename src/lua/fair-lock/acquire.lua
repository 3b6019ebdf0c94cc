--[[ fair-lock/acquire: take the lock if it is this owner's turn, else queue it, and say when to ask again. Runs twice
     without harm. Time is the server's. A waiter is only judged when the lock is free and it is its turn: it is woken
     once more, and is out if it does not come within 5 s, or 1 s if nobody listens on its channel. That it was woken is
     kept as a fraction of its deadline: others take their wait times off the deadlines of the living, too. Meanwhile the
     others ask every second, as the one whose turn it is may come, and die with the lock.
     KEYS[1] lock           hash: holder -> hold count
     KEYS[2] queue          list: waiting holders, the next one first
     KEYS[3] deadlines      sorted set: waiting holder -> epoch ms until which it is believed to be alive
     ARGV[1] leaseTimeMs    ms, > 0
     ARGV[2] holder         "<client id>:<owner id>"
     ARGV[3] waitTimeMs     ms, > 0: how long it will wait in all
     ARGV[4] isQueueing     1, or 0 to be refused without a place in the queue
     ARGV[5] channelPrefix  where waiters listen, without the holder
     ARGV[6] message        what wakes them
     Reply   nil            acquired
             integer        when to ask again at the latest, ms (-1: no idea)
     Source  RedissonFairLock.tryLockInnerAsync: same keys, and deadlines that it understands ]]
-- include fair-lock/shift
-- include fair-lock/hurry
local lock, queue, deadlines = KEYS[1], KEYS[2], KEYS[3]
local lease, holder, wait = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])

local left = redis.call('pttl', lock)
if left ~= -2 and redis.call('hexists', lock, holder) == 1 then
  if left < lease then
    redis.call('pexpire', lock, lease)
  end
  return nil
end

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

if left == -2 then
  local first = redis.call('lindex', queue, 0)
  local frozen
  while first and first ~= holder do
    local deadline = tonumber(redis.call('zscore', deadlines, first) or 0)
    -- its turn: it may have missed the message
    local isSilent = redis.pcall('publish', ARGV[5] .. first, ARGV[6]) == 0
    if deadline > now or not isSilent and deadline % 1 == 0 then
      local grace = now + (isSilent and 1000 or 5000)
      if deadline <= now or deadline > grace then
        deadline = grace
        redis.call('zadd', deadlines, string.format('%d.5', grace), first)
      end
      -- those behind a silent one may have died with it: judged together
      for _, waiter in ipairs(isSilent and redis.call('lrange', queue, 1, 99) or {}) do
        if waiter == holder or redis.pcall('publish', ARGV[5] .. waiter, ARGV[6]) ~= 0 then
          break
        end
        if tonumber(redis.call('zscore', deadlines, waiter) or 0) > grace then
          redis.call('zadd', deadlines, string.format('%d', grace), waiter)
        end
      end
      left = math.min(math.floor(deadline) - now, 1000)
      break
    end
    redis.call('zrem', deadlines, first)
    redis.call('lpop', queue)
    if not isSilent and clientOf(first) ~= frozen then
      frozen = clientOf(first)
      hurry(queue, deadlines, frozen, now + 1000, ARGV[5], ARGV[6])
    end
    first = redis.call('lindex', queue, 0)
  end
  if not first or first == holder then
    redis.call('hset', lock, holder, 1)
    local expires = redis.pcall('pexpire', lock, lease)
    if type(expires) == 'table' then
      redis.call('del', lock)
      return expires
    end
    if first then
      redis.call('lpop', queue)
      redis.call('zrem', deadlines, holder)
      shift(deadlines, redis.call('zrange', deadlines, 0, -1), wait)
    end
    return nil
  end
end

if ARGV[4] == '0' then
  return left
end

-- Redisson adds the wait times of the queue up, and takes those of who gets the lock off again.
local place = redis.call('lpos', queue, holder)
local deadline
if place then
  deadline = now + (place + 1) * wait
else
  local last = redis.call('lindex', queue, -1)
  deadline = math.max(now + math.max(left, 0), tonumber(last and redis.call('zscore', deadlines, last) or 0)) + wait
end
-- a waiter that asks is alive: whatever others took off its deadline is made good
if tonumber(redis.call('zscore', deadlines, holder) or 0) < deadline then
  redis.call('zadd', deadlines, string.format('%d', deadline), holder)
end
if not place then
  redis.call('rpush', queue, holder)
end
return left
