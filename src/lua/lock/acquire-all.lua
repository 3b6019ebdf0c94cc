--[[ lock/acquire-all: take several locks, all or none, each for an owner that does not hold it; or return which of them
     another owner holds. Idempotent, like lock/acquire.
     KEYS[n] lock         hash: holder -> hold count
     ARGV[1] leaseTimeMs  ms, > 0; then the holder of each lock, "<client id>:<owner id>"
     Expires late, it takes nothing
     Reply   nil          acquired
             integer      the index of the first lock that another owner holds, from 0 ]]
-- include lock/take
for n, key in ipairs(KEYS) do
  local KEYS = { key }
  if redis.call('pttl', KEYS[1]) ~= -2 and redis.call('hexists', KEYS[1], ARGV[n + 1]) == 0 then
    return n - 1
  end
end
for n, key in ipairs(KEYS) do
  local KEYS = { key }
  local refused = take(KEYS[1], ARGV[1], ARGV[n + 1])
  if refused then
    return refused
  end
end
return nil
