--[[ string-lock/inspect: who holds the lock, and for how long.
     KEYS[1] lock         string: the holder
     Reply   array        PTTL of the lock (-2: free, -1: no expiry), then holder and 1, if it is held ]]
local holder = redis.call('get', KEYS[1])
local left = redis.call('pttl', KEYS[1])
return holder and { left, holder, 1 } or { left }
