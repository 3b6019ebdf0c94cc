-- include permit/reclaim

-- Gives back the permits whose ids are the arguments from a number on, as far as they are held, and notifies waiters. Returns
-- nil if not all of them were still held; else how many connections received the message (-1: publishing was refused).
local function giveBack(semaphore, leases, channel, ARGV, from)
  local permits, released, held = {}, 0, 0
  for n = from, #ARGV do
    local id = bytesOf(ARGV[n])
    local expires = tonumber(redis.call('zscore', leases, id) or -1)
    table.insert(permits, id)
    held = held + (expires > now and 1 or 0)
  end
  if #permits > 0 then
    released = redis.call('zrem', leases, unpack(permits))
  end
  local receivers = reclaim(semaphore, leases, channel, released, MAX_RECLAIMED)
  if held < #permits then
    return nil
  end
  return receivers
end
