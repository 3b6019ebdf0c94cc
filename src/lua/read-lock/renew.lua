--[[ read-lock/renew: renew the read holds of many readers, each only if it still reads. Never shortens a lease, and
     does not touch other readers' holds.
     KEYS[n] lock         hash: mode -> read or write, reader -> hold count, "<writer>:write" -> hold count
     ARGV[3n-2] holder       "<client id>:<owner id>"
     ARGV[3n-1] leaseTimeMs  ms, > 0
     ARGV[3n]   prefix       what the keys of read holds begin with
     Reply   array        for each lock: 1 renewed, 0 this owner no longer reads
     Source  ReadLockTask.renew (4.4 and later): same effect ]]
-- include read-lock/read-holds
-- include read-lock/extend-hold
local renewed = {}
for n, key in ipairs(KEYS) do
  local KEYS = { key }
  local holder, lease, prefix = ARGV[3 * n - 2], tonumber(ARGV[3 * n - 1]), ARGV[3 * n]
  -- protected, as in lock/renew
  local count = redis.pcall('hget', KEYS[1], holder)
  if type(count) == 'table' and not string.find(count.err, 'WRONGTYPE', 1, true) then
    return count
  end
  renewed[n] = 0
  if type(count) == 'string' and isReading(prefix, holder, count) then
    -- PEXPIRE first: a Redis without memory refuses SET unless the script has already written
    local left = redis.call('pttl', KEYS[1])
    redis.call('pexpire', KEYS[1], math.max(left, lease))
    for index = 1, math.min(holdCount(count), LEASED_HOLDS) do
      extendHold(prefix, holder, index, lease)
    end
    renewed[n] = 1
  end
end
return renewed
