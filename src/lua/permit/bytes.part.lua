local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- A permit as Redis knows it: 16 bytes, which are spelled as 32 hexadecimal digits elsewhere.
local function bytesOf(id)
  return (string.gsub(id, '%x%x', function(digits)
    return string.char(tonumber(digits, 16))
  end))
end
