--[[ string-lock/force-release: free the lock, whoever holds it, and wake Holdfast's waiters.
     KEYS[1] lock         string: the holder
     ARGV[1] channel      the waiters' channel
     ARGV[2] message      what wakes them
     Reply   integer      1 it was held, 0 it was free ]]
-- a key of another type is somebody's data: GET replies WRONGTYPE
if not redis.call('get', KEYS[1]) then
  return 0
end
redis.call('del', KEYS[1])
redis.pcall('publish', ARGV[1], ARGV[2])
return 1
