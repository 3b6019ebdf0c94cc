--[[ faster-multi-lock/shorten: end the lease of an owner after a given time, for those of its values that would last
     longer. Never extends it. The group lasts on: other values may need it, and its values end by themselves.
     KEYS[1] group        hash, as in faster-multi-lock/acquire
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] holder       "<client id>:<owner id>"
     ARGV[3…] values      their digests
     Reply   integer      how many of them it still has ]]
-- include faster-multi-lock/values
local endsAt, had = now + tonumber(ARGV[1]), 0
for n = 3, #ARGV do
  local owner, expiry = ownerOf(KEYS[1], ARGV[n])
  if owner == ARGV[2] then
    had = had + 1
    if expiry > endsAt then
      redis.call('hset', KEYS[1], ARGV[n] .. ':' .. owner .. ':expire_time', string.format('%d', endsAt))
    end
  end
end
return had
