-- Keeps the stored replies for 20 minutes from now: no copy of a command arrives later than that. Also called first by
-- scripts that give something back. A Redis without memory refuses commands that may need some, unless the script has
-- already written, and PEXPIRE is never refused.
local function keepReplies(replies)
  redis.call('pexpire', replies, 1200000)
end
