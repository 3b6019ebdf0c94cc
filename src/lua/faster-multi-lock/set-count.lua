--[[ faster-multi-lock/set-count: set the hold count of an owner for all its values, and see to it that its lease lasts at
     least as long as asked.
     KEYS[1] group        hash, as in faster-multi-lock/acquire
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] holder       "<client id>:<owner id>"
     ARGV[3] count        the hold count this leads to, > 0
     ARGV[4…] fields      the digests of the values
     Reply   integer      1 done, 0 this owner does not hold them all ]]
-- include numbers/whole
-- include faster-multi-lock/fields
for n = 4, #ARGV do
  if ownerOf(KEYS[1], ARGV[n]) ~= ARGV[2] then
    return 0
  end
end
for n = 4, #ARGV do
  redis.call('hset', KEYS[1], ARGV[n] .. ':' .. ARGV[2] .. ':lock_count', ARGV[3])
  extend(KEYS[1], ARGV[n], ARGV[2], tonumber(ARGV[1]))
end
return 1
