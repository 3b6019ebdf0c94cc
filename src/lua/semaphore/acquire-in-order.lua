--[[ semaphore/acquire-in-order: take permits if it is the turn of a waiter and enough are available; otherwise queue it. Who
     asks again keeps its place. Takes once, however many copies arrive, and not at all if it arrives late.
     KEYS[1] semaphore    string: available permits
     KEYS[2] replies      hash: operation -> stored reply
     KEYS[3] queue        sorted set: waiter -> its place
     KEYS[4] clients      sorted set: client -> until when it is believed to be alive; waiter -> when its call ends, epoch ms
     KEYS[5] generation   string: which semaphore of this name it is
     ARGV[1] waiter       "<client id>:<number>:<permits>"
     ARGV[2] inboxPrefix  what the clients' channels begin with
     ARGV[3] priority     higher first
     ARGV[4] place        the place that it had; empty: none
     ARGV[5] maxWaiters   how many may be queued before it; -1: any number
     ARGV[6] isQueueing   1; 0: if refused, it does not join the queue
     ARGV[7] operation    its number
     ARGV[8] openedAt     when it was opened, epoch ms
     Expires late, it takes nothing
     Reply   integer      acquired: the generation (1: not known); 0: it was cancelled
             array        of one: it arrived too late: the time, epoch ms. Of more: refused, see queue/turn
     Source  none: permits of Redisson have no order. The other keys are those of semaphore/acquire ]]
-- include semaphore/take
-- include queue/turn
if redis.call('hexists', KEYS[2], ARGV[7]) == 0 then
  local refusal = refusalOf(KEYS[3], KEYS[4], ARGV, integerAt(KEYS[1]), epochMs())
  if refusal then
    return refusal
  end
end
local reply = takePermits(KEYS[1], KEYS[2], KEYS[5], permitsOf(ARGV[1]), ARGV[7], ARGV[8])
if type(reply) ~= 'table' then
  callNext(KEYS[3], KEYS[4], ARGV[1], ARGV[2], integerAt(KEYS[1]), epochMs())
end
return reply
