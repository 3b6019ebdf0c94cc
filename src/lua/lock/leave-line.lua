--[[ lock/leave-line: nobody waits any more under a ticket. If it was its turn, it is the next one's.
     KEYS[1] lock         hash: holder -> hold count
     KEYS[2] waiters      list of tickets, first come first
     ARGV[1] ticket       what woke this client
     ARGV[2] channel      where waiters listen
     ARGV[3] message      what follows the ticket of whose turn it is
     Reply   integer      1 ]]
redis.pcall('lrem', KEYS[2], 0, ARGV[1])
if redis.call('pttl', KEYS[1]) == -2 then
  local first = redis.pcall('lpop', KEYS[2])
  if type(first) == 'string' then
    redis.pcall('publish', ARGV[2], first)
    redis.pcall('publish', ARGV[2], ARGV[3])
  end
end
return 1
