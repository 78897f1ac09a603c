-- Whether a message that is not leased keeps the seat that it has. waits: for its redelivery.
-- needs: rule
-- gives: keeps_seat
local function keeps_seat(state, waits)
  if state.part ~= 'live' then
    return rule.holds and state.part == 'dead' and state.reason ~= 'expired'
  end
  return not waits or rule.in_order
end
