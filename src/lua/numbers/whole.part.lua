-- The whole number that a text spells; nil if it spells none, or one with which Lua cannot count exactly.
local function whole(text)
  return type(text) == 'string' and #text < 17 and string.find(text, '^%-?%d+$') and tonumber(text) or nil
end
