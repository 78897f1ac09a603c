-- The score of the seat that a message of a lane takes when it is let in.
-- needs: rule, digits, BY_RATE
-- gives: seat_in
local function seat_in(lane)
  return rule.interval and digits(lane) .. BY_RATE or digits(lane)
end
