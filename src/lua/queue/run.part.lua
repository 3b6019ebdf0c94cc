-- include queue/places

-- How long the lock goes from waiter to waiter while others listen, ms, and how long it is free for them then.
local RUN_MS = 100
local PAUSE_MS = 15

-- Whether the lock is free for others: Redisson, and locks without an order. The end of the last pause, from which on the run
-- counts, is kept as the time of a client without a name.
local function isPaused(clients, now)
  local ends = redis.call('zscore', clients, '')
  return ends and tonumber(ends) > now
end

-- Begins a pause if others listen, not only to watch, and the run has lasted long enough.
local function endRun(queue, clients, listeners, watchChannel, now)
  if type(listeners) ~= 'number' or listeners == 0 or redis.call('exists', queue) == 0 then
    return
  end
  local watchers = redis.pcall('publish', watchChannel, '')
  if type(watchers) == 'number' and watchers >= listeners then
    return
  end
  local began = redis.call('zscore', clients, '')
  if not began then
    believe(clients, '', now)
  elseif now - tonumber(began) >= RUN_MS then
    believe(clients, '', now + PAUSE_MS)
  end
end
