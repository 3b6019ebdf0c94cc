--[[ lock/force-release-in-line: as lock/force-release, and give the turn to the first in line.
     KEYS[1] lock         hash: holder -> hold count
     KEYS[2] waiters      list of tickets, first come first
     ARGV[1] channel      where those listen who know of no line
     ARGV[2] message      what wakes them
     ARGV[3] inboxes      what the channels of clients begin with
     Reply   integer      1 it was held, 0 it was free ]]
-- include lock/only-holder
-- include lock/line
if redis.call('type', KEYS[1]).ok ~= 'hash' then
  -- as lock/force-release
  return redis.call('hlen', KEYS[1])
end
if not hasOnlyHolder(KEYS[1]) then
  return redis.error_reply(NO_LOCK)
end
redis.call('del', KEYS[1])
passTurn(KEYS[2], ARGV[3], '', 'turn')
redis.pcall('publish', ARGV[1], ARGV[2])
return 1
