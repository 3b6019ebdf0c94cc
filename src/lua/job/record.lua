--[[ job/record: remember that a run of a job has begun or ended, or that a job is expected although it does not run here.
     Times are of this server, epoch ms. A copy changes nothing, but maybe when a run succeeded that others have overlapped.
     KEYS[1] job          hash: the last run
     KEYS[2] jobs         sorted set: job -> when its record expires
     ARGV[1] name         of the job
     ARGV[2] holder       of the run; '': there is none
     ARGV[3] label        of the run
     ARGV[4] everyMs      how often it should succeed, ms (0: not expected any more, '': as before)
     ARGV[5] ranMs        since its start, ms
     ARGV[6] exitCode     '': it has not ended
     ARGV[7] mostJobs     of which records are kept
     Expires late, it records nothing
     Reply   integer      1 a run began, else 0 ]]
-- include time/now
local now = epochMs()
local startedAt = string.format('%d', now - tonumber(ARGV[5]))
if ARGV[4] ~= '' then
  redis.call('hset', KEYS[1], 'everyMs', ARGV[4])
end
if redis.call('hexists', KEYS[1], 'knownAt') == 0 then
  redis.call('hset', KEYS[1], 'knownAt', startedAt)
end

local holder, lastAt = redis.call('hget', KEYS[1], 'holder'), redis.call('hget', KEYS[1], 'startedAt')
local isKnown = holder == ARGV[2] or redis.call('hget', KEYS[1], 'previousHolder') == ARGV[2]
local isNew = ARGV[2] ~= '' and not isKnown and tonumber(lastAt or '0') <= tonumber(startedAt)
if isNew then
  redis.call('hset', KEYS[1], 'previousHolder', holder or '', 'previousStartedAt', lastAt or '')
  redis.call('hset', KEYS[1], 'holder', ARGV[2], 'label', ARGV[3], 'startedAt', startedAt)
  redis.call('hdel', KEYS[1], 'exitCode', 'ranMs')
end

local isLast = isNew or holder == ARGV[2]
local isRepeat = isLast and redis.call('hexists', KEYS[1], 'exitCode') == 1
if ARGV[6] ~= '' and isLast and not isRepeat then
  redis.call('hset', KEYS[1], 'exitCode', ARGV[6], 'ranMs', ARGV[5])
end
if ARGV[6] == '0' and not isRepeat then
  redis.call('hset', KEYS[1], 'succeededAt', string.format('%d', now))
end

-- What is expected is kept for a month, else for a week. What expires first leaves first: names of one-off runs.
local everyMs = tonumber(redis.call('hget', KEYS[1], 'everyMs') or '0')
local keptMs = everyMs > 0 and math.max(2592000000, 3 * everyMs) or 604800000
redis.call('pexpire', KEYS[1], string.format('%d', keptMs))
local isAdded = redis.call('zadd', KEYS[2], string.format('%d', now + keptMs), ARGV[1]) == 1
if isAdded and redis.call('zcard', KEYS[2]) > tonumber(ARGV[7]) then
  local first = redis.call('zrange', KEYS[2], 0, 0)
  redis.call('zrem', KEYS[2], first[1])
end
if redis.call('pttl', KEYS[2]) < keptMs then
  redis.call('pexpire', KEYS[2], string.format('%d', keptMs))
end
return isNew and 1 or 0
