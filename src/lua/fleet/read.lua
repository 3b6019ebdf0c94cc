--[[ fleet/read: what is known of one name, whatever kind of lock, semaphore or latch it is. Changes nothing. At most 200
     entries each, one more in a list that was cut; texts cut to 256 bytes; nothing of data that cannot be a lock.
     KEYS[1] lock         of any type
     KEYS[2] queue        list: waiting holders of a fair lock, the next one first
     KEYS[3] turnQueue    list: tickets of waiting clients, the next one first
     KEYS[4] tokens       string: the last fencing token
     KEYS[5] leases       sorted set: permit -> until when it is held, epoch ms
     KEYS[6] generation   string: exists with a semaphore
     KEYS[7] places       sorted set: waiting holders of an ordered lock, by their places
     ARGV[1] prefix       what the keys of read holds begin with
     Reply   array        the server's time, epoch ms; the type of the lock; its PTTL (-2: no such key, -1: no expiry); its
                          text, if it is a string; its fields and their values, without readers whose holds have ended;
                          waiting holders; tickets; permits in hexadecimal digits and what is left of their leases, ms
                          (-1: no end); 1 if there is a token; 1 if there is a generation; 1 if something was left out;
                          how many permits count as held, and are not; waiting holders of an ordered lock, each with its
                          place ]]
-- include time/now
-- include numbers/to-integer
-- include fleet/fields
local now, isCut = epochMs(), 0
local kind, left, text, fields = redis.call('type', KEYS[1]).ok, redis.call('pttl', KEYS[1]), '', {}
if isData(KEYS[1], kind, left) then
  return { now, kind, left, '', {}, {}, {}, {}, 0, 0, 0, 0, {} }
end

if kind == 'string' then
  text = cut(redis.call('get', KEYS[1]))
elseif kind == 'hash' then
  local mode = redis.call('hget', KEYS[1], 'mode')
  isCut = 1
  if hasMode(mode) or redis.call('hlen', KEYS[1]) <= 3 * MAX_ENTRIES then
    local found, isAll = fieldsOf(KEYS[1], mode, ARGV[1])
    fields = found
    isCut = isAll and 0 or 1
  end
end

local waiting = entriesOf(redis.pcall('lrange', KEYS[2], 0, MAX_ENTRIES))
local tickets = entriesOf(redis.pcall('lrange', KEYS[3], 0, MAX_ENTRIES))
local permits, ended, scored = {}, 0, unlessRefused(redis.pcall('zrange', KEYS[5], 0, MAX_ENTRIES, 'withscores')) or {}
for n = 1, math.min(#scored, 2 * MAX_ENTRIES), 2 do
  -- Redisson's "never"
  local ends = scored[n + 1] ~= '922337203685477' and toInteger(scored[n + 1])
  if not ends or ends > now then
    table.insert(permits, hexOf(cut(scored[n])))
    table.insert(permits, ends and ends - now or -1)
  else
    ended = ended + 1
  end
end
local places = entriesOf(redis.pcall('zrange', KEYS[7], 0, MAX_ENTRIES - 1, 'withscores'))
if #waiting > MAX_ENTRIES or #tickets > MAX_ENTRIES or #scored > 2 * MAX_ENTRIES then
  isCut = 1
end
local hasToken, hasGeneration = redis.call('exists', KEYS[4]), redis.call('exists', KEYS[6])
return { now, kind, left, text, fields, waiting, tickets, permits, hasToken, hasGeneration, isCut, ended, places }
