--[[ lock/inspect: who holds the lock, how often, and for how long.
     KEYS[1] lock         hash: holder -> hold count
     Reply   array        PTTL of the lock (-2: free, -1: no expiry), then holder, hold count, holder, hold count … ]]
local found = redis.call('hgetall', KEYS[1])
table.insert(found, 1, redis.call('pttl', KEYS[1]))
return found
