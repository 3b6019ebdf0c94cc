-- The integer that a text spells; nil if it spells none, or one that a number of Lua cannot hold exactly.
local function toInteger(text)
  return type(text) == 'string' and #text < 17 and string.find(text, '^%-?%d+$') and tonumber(text) or nil
end
