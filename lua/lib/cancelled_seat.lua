-- The seat of a call whose message was cancelled: it stays taken until the call or its lease has ended, so that an ordered
-- key never runs two calls. No id begins with this byte.
-- gives: cancelled_seat
local function cancelled_seat(id, token)
  return '\2' .. token .. ' ' .. id
end
