-- include idempotency/run-once

-- Runs a script once. It has one more key, for the stored replies, and two more arguments: the number of the operation,
-- and when it was opened.
local function once(KEYS, ARGV, script)
  local keys, args = KEYS, {}
  for index = 1, #ARGV - 2 do
    -- a copy: calls of a batch share arguments
    args[index] = ARGV[index]
  end
  local KEYS = { table.remove(keys) }
  return runOnce(KEYS[1], ARGV[#ARGV - 1], ARGV[#ARGV], function()
    return script(keys, args) or -2
  end)
end
