-- Gives back the seat of a cancelled message whose call or lease has ended, and lets in the next message of its lane.
-- Returns whether there was such a seat; if so, the claim holds one message fewer.
-- needs: cancelled_seat; keys: seats
-- gives: end_cancelled
local function end_cancelled(id, token)
  local member = cancelled_seat(id, token)
  if not redis.call('ZSCORE', seats, member) then
    return false
  end
  -- needs: vacate
  vacate({ member })
  return true
end
