-- A Redis without memory refuses what may need some, unless the script has written before. This changes nothing that counts,
-- and is never refused: for what gives back, which must go on.
local function insist(receipts)
  redis.call('pexpire', receipts, 1200000)
end
