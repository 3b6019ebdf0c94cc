--[[ idempotency/forget: delete the stored replies of operations of which no copies can still arrive.
     KEYS[1] replies      hash: operation -> stored reply
     ARGV[1…] operations  their numbers
     Reply   integer      the time, epoch ms ]]
-- include time/now
redis.call('hdel', KEYS[1], unpack(ARGV, 1, #ARGV))
return epochMs()
