-- The call of a message that was cancelled has ended, or its lease: gives the seat back that it still held, and lets in the
-- next of its lane. Returns whether there was one; then the claim holds one less.
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
