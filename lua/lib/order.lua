-- The order of an index (I8): priority, then due time, then send order. The score holds priority and due time. Redis sorts
-- ties of the score by the bytes of the member, so the member begins with the send order. While the message is due when it
-- was born, that is its number within the millisecond, since the score holds the millisecond already (2 bytes, the first 16
-- to 31). Otherwise it is 9 - priority and the whole birth (8 bytes, the first 0 to 9).
-- A message with a key or a dependency always has the long form, so its row is the same in a lane and in `ready`
-- (lib/enter).
-- A scheduled message is never due in the millisecond of its birth, not even after the clock stepped back: promote reads
-- the priority from the member.
-- needs: pack_number
-- gives: score_of, order_of, member_of
local BAND = 2 ^ 42

local function score_of(priority, due)
  return (9 - priority) * BAND + due
end

-- The send order without its last byte, which is the last byte of the birth.
local function order_of(head, due)
  local number = head.birth % 4096
  local last = number % 256
  if not (head.lane or head.needs) and (head.birth - number) / 4096 == due then
    return string.char(16 + (number - last) / 256)
  end
  return string.char(9 - head.priority) .. pack_number((head.birth - last) / 256, 6)
end

local function member_of(id, head, due)
  return order_of(head, due) .. string.char(head.birth % 256) .. id
end
