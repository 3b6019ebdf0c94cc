--[[ receipts/forget: forget operations whose replies arrived, so that no copy of them can be under way.
     KEYS[1] receipts    hash: operation -> what it answered
     ARGV[1…] operations  their numbers
     Reply   integer     how many there were ]]
return redis.call('hdel', KEYS[1], unpack(ARGV, 1, #ARGV))
