--[[ permit/acquire-in-order: take permits if it is the turn of a waiter and enough are available; otherwise queue it. Who asks
     again keeps its place. Idempotent.
     KEYS[1] semaphore    string: available permits
     KEYS[2] leases       sorted set: permit -> until when it is held, epoch ms
     KEYS[3] queue        sorted set: waiter -> its place
     KEYS[4] clients      sorted set: client -> until when it is believed to be alive; waiter -> when its call ends, epoch ms
     ARGV[1] waiter       "<client id>:<number>:<permits>"
     ARGV[2] inboxPrefix  what the clients' channels begin with
     ARGV[3] priority     higher first
     ARGV[4] place        the place that it had; empty: none
     ARGV[5] maxWaiters   how many may be queued before it; -1: any number
     ARGV[6] isQueueing   1; 0: if refused, it does not join the queue
     ARGV[7] leaseTimeMs  ms, > 0
     ARGV[8] channel      that of waiters that are not queued
     ARGV[9…] ids         the permits: 32 hexadecimal digits each
     Expires late, it takes nothing
     Reply   nil          acquired
             array        refused, see queue/turn
     Source  none: permits of Redisson have no order. The first two keys are those of permit/acquire ]]
-- include permit/take
-- include queue/turn
local expires = now + tonumber(ARGV[7])
reclaim(KEYS[1], KEYS[2], ARGV[8], 0, math.max(MAX_RECLAIMED, #ARGV - 8))
local permits, ends, isRepeat = permitsFrom(KEYS[2], ARGV, 9)
if not isRepeat then
  local refusal = refusalOf(KEYS[3], KEYS[4], ARGV, integerAt(KEYS[1]), now)
  if refusal then
    if refusal[3] == 1 then
      refusal[1] = nextEnd(KEYS[2])
    end
    return refusal
  end
end
takePermits(KEYS[1], KEYS[2], permits, ends, isRepeat, expires)
callNext(KEYS[3], KEYS[4], ARGV[1], ARGV[2], integerAt(KEYS[1]), now)
return nil
