--[[ forced/mark: name a holder that has to give the lock up, if it holds the lock. The lock itself stays as it is. An
     earlier mark of this holder stands as long as the holder may not have read it; then it is replaced.
     KEYS[1] lock         hash: holder -> hold count; or string: the holder
     KEYS[2] mark         string: the holder, by whom and why
     ARGV[1] form         what the lock is: "hash", "read-write" (a hash with a mode) or "string"
     ARGV[2] holder       as in the lock
     ARGV[3] content      of the mark
     ARGV[4] markTtlMs    ms
     ARGV[5] standsForMs  how old an earlier mark must be to be replaced, ms
     Expires late, it marks nobody
     Reply   nil          that holder does not hold the lock
             array        marked; the earlier mark, if there was one, and its age, ms ]]
local form = redis.call('type', KEYS[1]).ok
if form == 'none' then
  return nil
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
  return nil
end
local earlier = redis.call('get', KEYS[2])
if earlier == ARGV[3] then
  -- a copy: the mark stays as old as it is
  return {}
end
local age = earlier and tonumber(ARGV[4]) - redis.call('pttl', KEYS[2]) or 0
if not earlier or age >= tonumber(ARGV[5]) then
  redis.call('set', KEYS[2], ARGV[3], 'px', ARGV[4])
end
return earlier and { earlier, age } or {}
