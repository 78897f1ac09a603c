-- The lanes of a message, from its record (lib/lanes_in). nil: it has none.
-- needs: EXPIRES, lanes_in
-- gives: lanes_of
local HEADERS = 0x20

local function lanes_of(record)
  local flags = record:byte(8)
  if flags and math.floor(flags / HEADERS) % 2 == 1 then
    return lanes_in(record, math.floor(flags / EXPIRES) % 2 == 1 and 15 or 9)
  end
end
