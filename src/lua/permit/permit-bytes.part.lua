-- include time/now

local now = epochMs()

local byteOf = {}

-- A permit in Redis: 16 bytes, elsewhere spelled as 32 hexadecimal digits.
local function bytesOf(id)
  return (string.gsub(id, '%x%x', function(digits)
    byteOf[digits] = byteOf[digits] or string.char(tonumber(digits, 16))
    return byteOf[digits]
  end))
end
