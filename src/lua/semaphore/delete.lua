--[[ semaphore/delete: delete the semaphore.
     KEYS[1] semaphore   string: available permits
     KEYS[2] leases      sorted set: permit -> epoch ms until which it is held; nothing, if permits have no leases
     KEYS[3] generation  string: which semaphore of this name it is; the semaphore itself, if permits have ids
     Reply   integer     1 there was one, 0 there was none
     Source  RedissonSemaphore.deleteAsync, RedissonPermitExpirableSemaphore.deleteAsync ]]
-- include semaphore/generation
-- include numbers/number-at
-- a key that is no number is somebody's data: an error, and it stays
numberAt(KEYS[1])
local existed = redis.call('exists', KEYS[1])
redis.call('del', KEYS[1], KEYS[2])
if existed == 1 then
  beginGeneration(KEYS[3], 0)
end
return existed
