--[[ web-locks/record: list a lock among those of `client.locks` until some time from now. Idempotent.
     KEYS[1] names        sorted set: lock -> when its entry expires, epoch ms
     ARGV[1] name         of the lock
     ARGV[2] ttlMs        ms, > 0
     ARGV[3] mostNames    of which entries are kept; those that expire first leave first
     Expires late, it records nothing
     Reply   integer      1 it is new, else 0 ]]
-- include time/now
local now, ttl = epochMs(), tonumber(ARGV[2])
local isAdded = redis.call('zadd', KEYS[1], string.format('%d', now + ttl), ARGV[1])
local gone = redis.call('zrangebyscore', KEYS[1], 0, string.format('%d', now), 'limit', 0, 10)
if #gone == 0 and redis.call('zcard', KEYS[1]) > tonumber(ARGV[3]) then
  gone = redis.call('zrange', KEYS[1], 0, 0)
end
for _, name in ipairs(gone) do
  redis.call('zrem', KEYS[1], name)
end
if redis.call('pttl', KEYS[1]) < ttl then
  redis.call('pexpire', KEYS[1], string.format('%d', ttl))
end
return isAdded
