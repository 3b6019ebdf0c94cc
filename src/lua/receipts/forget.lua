--[[ receipts/forget: forget operations whose replies arrived, so that no copy of them can be under way.
     KEYS[1] receipts     hash: operation -> its reply
     ARGV[1…] operations  their numbers
     Reply   integer      the time, epoch ms ]]
redis.call('hdel', KEYS[1], unpack(ARGV, 1, #ARGV))
local time = redis.call('time')
return time[1] * 1000 + math.floor(time[2] / 1000)
