-- The text of a key or a dependency in the record of a message (lib/lanes_in).
--   of: key or dependency
-- needs: EXPIRES
-- gives: text_in
local NUMBERS, WIDTH = { key = 1, dependency = 2 }, 6 -- numbers of the fields; bytes of a lane

local function text_in(record, of)
  local at = math.floor((record:byte(8) or 0) / EXPIRES) % 2 == 1 and 17 or 11
  for _ = 1, 2 do
    local number, high, low = record:byte(at, at + 2)
    local last = low and at + 2 + high * 256 + low or 0
    if number == NUMBERS[of] then
      return record:sub(at + 3 + WIDTH, last)
    end
    at = last + 1
  end
  return ''
end
