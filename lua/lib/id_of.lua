-- The id in a member of an index (see lib/place for what stands before it).
local function id_of(member)
  return member:sub(member:byte(1) < 16 and 9 or 3)
end
