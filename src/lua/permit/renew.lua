--[[ permit/renew: renew permits, each only if its lease has not ended. Never shortens a lease.
     KEYS[n] leases       sorted set: permit -> until when it is held, epoch ms
     ARGV[2n-1] ids          permits: 32 hexadecimal digits each, separated by commas
     ARGV[2n]   leaseTimeMs  ms, > 0
     Reply   array        for each: 1 renewed, 0 not all of them are held ]]
-- include permit/permit-bytes
local renewed = {}
for n, key in ipairs(KEYS) do
  local KEYS = { key }
  local expires = now + tonumber(ARGV[2 * n])
  local permits, isHeld = {}, 1
  for id in string.gmatch(ARGV[2 * n - 1], '%x+') do
    local permit = bytesOf(id)
    -- protected: a key that somebody overwrote with another type must not cost all other permits their renewal
    local score = redis.pcall('zscore', KEYS[1], permit)
    if type(score) == 'table' and not string.find(score.err, 'WRONGTYPE', 1, true) then
      return score
    end
    if type(score) ~= 'string' or tonumber(score) <= now then
      isHeld = 0
    elseif tonumber(score) < expires then
      table.insert(permits, permit)
    end
  end
  if isHeld == 1 and #permits > 0 then
    -- removes nothing: a Redis without memory refuses ZADD unless the script has already written
    redis.call('zrem', KEYS[1], '')
  end
  for _, permit in ipairs(isHeld == 1 and permits or {}) do
    redis.call('zadd', KEYS[1], string.format('%d', expires), permit)
  end
  renewed[n] = isHeld
end
return renewed
