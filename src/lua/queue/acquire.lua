--[[ queue/acquire: take an ordered lock, plain or a side of a read-write lock, or confirm an offer of it; otherwise
     queue the holder. Who asks again keeps its place. Idempotent.
     KEYS[1] lock         hash: holder -> hold count; of a read-write lock also mode -> read or write
     KEYS[2] queue        sorted set: waiting holder -> its place
     KEYS[3] clients      sorted set: client -> until when it is believed to be alive, epoch ms
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] holder       "<client id>:<owner id>", and ":write" after it for the exclusive side
     ARGV[3] prefix       what the keys of read holds begin with; empty: a plain lock
     ARGV[4] inboxPrefix  what the clients' channels begin with
     ARGV[5] priority     higher first
     ARGV[6] place        the place that it had; empty: none
     ARGV[7] maxWaiters   how many may be queued before it; -1: any number
     ARGV[8] isQueueing   1; 0: if refused, it does not join the queue
     Expires late, it takes nothing
     Reply   nil          acquired
             array        when to ask again at the latest, ms (-1: not known); its place; 1: first, 2: behind others, 0: the
                          holder may give no turn
             array        "FULL"; how many wait; and the holders, as far as they are looked at
     Source  none: Redisson has no such locks. Its RedissonLock and RedissonReadWriteLock have the same keys ]]
-- include time/now
-- include queue/grant
-- include queue/join
local lease, holder, prefix, now = tonumber(ARGV[1]), ARGV[2], ARGV[3], epochMs()
if confirm(KEYS[1], KEYS[3], prefix, holder, lease, now) then
  return nil
end
local isInside = not isAlone(prefix, holder) and redis.call('hexists', KEYS[1], holder .. ':write') == 1
if ARGV[8] == '0' and not isInside then
  -- those in front may all be gone
  grant(KEYS[1], KEYS[2], KEYS[3], prefix, ARGV[4], now)
end
if isInside or redis.call('exists', KEYS[2]) == 0 and leftFor(KEYS[1], prefix, holder) == -2 then
  return give(KEYS[1], prefix, holder, lease)
elseif ARGV[8] == '0' then
  return { leftFor(KEYS[1], prefix, holder), '', 0 }
end
local place = join(KEYS[2], KEYS[3], KEYS[1], holder, ARGV[5], ARGV[6], tonumber(ARGV[7]), now)
if type(place) == 'table' then
  return place
end
-- otherwise those in front ask for themselves
if redis.call('zrange', KEYS[2], 0, 0)[1] == holder or ARGV[6] ~= '' or redis.call('exists', KEYS[1]) == 0 then
  local offered, isUnfinished = grant(KEYS[1], KEYS[2], KEYS[3], prefix, ARGV[4], now)
  if type(offered) == 'table' then
    return offered
  elseif offered and confirm(KEYS[1], KEYS[3], prefix, holder, lease, now) then
    return nil
  elseif isUnfinished then
    return { 20, place, 2 }
  end
end
return refusal(KEYS[1], KEYS[2], prefix, holder, place)
