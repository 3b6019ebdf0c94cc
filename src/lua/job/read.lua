--[[ job/read: what is recorded of a job. Changes nothing.
     KEYS[1] job          hash: the last run
     Reply   array        the server's time, epoch ms; the fields and their values ]]
-- include time/now
return { epochMs(), redis.call('hgetall', KEYS[1]) }
