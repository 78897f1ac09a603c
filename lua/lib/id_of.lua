-- The id in a member of an index (lib/order describes the bytes before it).
-- gives: id_of
local function id_of(member)
  return member:sub(member:byte(1) < 16 and 9 or 3)
end
