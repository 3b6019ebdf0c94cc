--[[ semaphore/delete: delete the semaphore.
     KEYS[1] semaphore   string: available permits
     KEYS[2] leases      sorted set: permit -> until when it is held, epoch ms; absent if permits have no leases
     KEYS[3] generation  string: which semaphore of this name it is; the semaphore itself, if permits have ids
     Reply   integer     1 it existed, 0 it did not
     Source  RedissonSemaphore.deleteAsync, RedissonPermitExpirableSemaphore.deleteAsync ]]
-- include semaphore/generation
-- include numbers/integer-at
-- a key without an integer is somebody's data: an error, and it stays
integerAt(KEYS[1])
local existed = redis.call('exists', KEYS[1])
redis.call('del', KEYS[1], KEYS[2])
if existed == 1 then
  startGeneration(KEYS[3], 0)
end
return existed
