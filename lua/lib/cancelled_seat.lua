-- The seat of a call whose message was cancelled: it stays taken until that call has ended, or its lease, so that an ordered
-- key never runs two. No id begins with this byte.
-- gives: cancelled_seat
local function cancelled_seat(id, token)
  return '\2' .. token .. ' ' .. id
end
