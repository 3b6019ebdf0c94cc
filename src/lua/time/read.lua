--[[ time/read: what time it is at the server.
     KEYS[1] key          any of its keys
     Reply   integer      epoch ms ]]
-- include time/now
-- a key that a script names and does not use would be an error of ours
redis.pcall('pttl', KEYS[1])
return epochMs()
