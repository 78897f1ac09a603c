-- The place, under `max_in_flight`, of a call whose message was cancelled: it stays taken until the call or its lease has
-- ended. No id begins with this byte.
-- gives: cancelled_place
local function cancelled_place(id, token)
  return '\3' .. token .. ' ' .. id
end
