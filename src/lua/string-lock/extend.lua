--[[ string-lock/extend: see to it that the lease of an owner lasts at least as long as asked.
     KEYS[1] lock         string: the holder
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] holder       "<client id>:<owner id>"
     Reply   integer      1 done, 0 this owner does not hold the lock ]]
if redis.call('get', KEYS[1]) ~= ARGV[2] then
  return 0
end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[1]) then
  redis.call('pexpire', KEYS[1], ARGV[1])
end
return 1
