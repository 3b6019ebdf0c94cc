-- Keep the replies for 20 minutes from now, in which TCP delivers what it ever will. A Redis without memory refuses commands
-- that may need some, unless the script has written before; this one is never refused, so what gives back, which must go on,
-- calls it first.
local function keep(receipts)
  redis.call('pexpire', receipts, 1200000)
end
