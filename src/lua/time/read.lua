--[[ time/read: what time it is at the server.
     KEYS[1] key          any of its keys
     Reply   integer      epoch ms ]]
-- include time/now
-- uses its key, by which the command is routed
redis.pcall('pttl', KEYS[1])
return epochMs()
