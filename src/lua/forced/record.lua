--[[ forced/record: add an entry to the audit, once, and drop the oldest ones if there are too many.
     KEYS[1] audit    list: JSON, the newest first
     ARGV[1] entry    JSON
     ARGV[2] lastKept index of the oldest entry that stays
     Reply   integer  1 added, 0 it was there ]]
if redis.call('lpos', KEYS[1], ARGV[1]) then
  return 0
end
redis.call('ltrim', KEYS[1], 0, ARGV[2])
redis.call('lpush', KEYS[1], ARGV[1])
return 1
