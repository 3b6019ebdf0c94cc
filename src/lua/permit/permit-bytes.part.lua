-- include time/now

local now = epochMs()

-- A permit in Redis: 16 bytes, elsewhere spelled as 32 hexadecimal digits.
local function bytesOf(id)
  return (string.gsub(id, '%x%x', function(digits)
    return string.char(tonumber(digits, 16))
  end))
end
