-- A record with another end of its time to live; nil: without one.
-- needs: EXPIRES, pack_number
-- gives: with_expiry
local function with_expiry(record, ends)
  local flags, first = record:byte(8), 9
  if math.floor(flags / EXPIRES) % 2 == 1 then
    flags, first = flags - EXPIRES, 15
  end
  local head = record:sub(1, 7) .. string.char(flags + (ends and EXPIRES or 0))
  return head .. (ends and pack_number(ends, 6) or '') .. record:sub(first)
end
