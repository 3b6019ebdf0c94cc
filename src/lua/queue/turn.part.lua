-- include queue/call

-- Removes the first waiters as long as they are gone: nothing was heard of their clients, or they were called and did not ask.
local function skipDead(queue, clients, now)
  for _ = 1, STEPS do
    local first = redis.call('zrange', queue, 0, 0)[1]
    local called = first and redis.call('zscore', clients, first)
    if not first or (believedUntil(clients, first) or 0) > now and not (called and tonumber(called) <= now) then
      return
    end
    leaveQueue(queue, clients, first)
  end
end

-- Whether there are enough permits for a waiter and all before it. One that is not queued is behind all.
local function isServed(queue, waiter, available)
  local before = redis.call('zrange', queue, 0, STEPS)
  for n = 1, math.min(#before, STEPS) do
    if before[n] == waiter then
      return permitsOf(waiter) <= available
    end
    available = available - permitsOf(before[n])
  end
  return #before <= STEPS and permitsOf(waiter) <= available
end

-- Whether it is the turn of a waiter: nil if it is, and it shall take its permits. Otherwise it is queued, and this is the reply
-- of the script: when to ask again at the latest, ms (-1: not known); its place; 1: first, 2: behind others, 0: not queued.
-- Or "FULL", and how many wait.
local function refusalOf(queue, clients, ARGV, available, now)
  local waiter = ARGV[1]
  skipDead(queue, clients, now)
  if ARGV[6] == '0' or redis.call('exists', queue) == 0 then
    if isServed(queue, waiter, available) then
      return nil
    elseif ARGV[6] == '0' then
      return { -1, '', 0 }
    end
  end
  local place, waiting = enqueue(queue, clients, waiter, ARGV[3], ARGV[4], tonumber(ARGV[5]), now)
  if not place then
    return { 'FULL', waiting }
  end
  redis.call('zrem', clients, waiter)
  if isServed(queue, waiter, available) then
    return nil
  end
  local isUnfinished = callFirst(queue, clients, ARGV[2], available, now)
  local first = redis.call('zrange', queue, 0, 0)[1]
  -- a call may be to a waiter that does not answer
  local called = redis.call('zscore', clients, first)
  local left = isUnfinished and 20 or called and math.max(1, called - now) or -1
  return { left, place, first == waiter and 1 or 2 }
end
