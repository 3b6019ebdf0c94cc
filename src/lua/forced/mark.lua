--[[ forced/mark: name a holder that has to give the lock up, if it holds the lock. The lock itself stays as it is.
     KEYS[1] lock       hash: holder -> hold count; or string: the holder
     KEYS[2] mark       string: the holder, by whom and why
     ARGV[1] form       what the lock is: "hash", "read-write" (a hash with a mode) or "string"
     ARGV[2] holder     as in the lock
     ARGV[3] content    of the mark
     ARGV[4] markTtlMs  ms
     Expires late, it marks nobody
     Reply   integer    1 marked, 0 that holder does not hold the lock ]]
local form = redis.call('type', KEYS[1]).ok
if form == 'none' then
  return 0
end
if form == 'hash' and redis.call('hexists', KEYS[1], 'mode') == 1 then
  form = 'read-write'
end
if form ~= ARGV[1] then
  return redis.error_reply('WRONGTYPE the key is not a lock of this kind: a lock of another kind, or data')
end
local isHeld
if form == 'string' then
  isHeld = redis.call('get', KEYS[1]) == ARGV[2]
else
  isHeld = redis.call('hexists', KEYS[1], ARGV[2]) == 1
end
if not isHeld then
  return 0
end
redis.call('set', KEYS[2], ARGV[3], 'px', ARGV[4])
return 1
