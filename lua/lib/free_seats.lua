-- How many messages of a lane may be let in: as many as seats are free; if keys have a rate, one when its slot has passed,
-- unless one that was let in so is still ready; below 0: so many have a seat too many. And the score of the seat that it takes.
-- needs: rule, limit_of, digits, BY_RATE; keys: seats
-- gives: free_seats
local function free_seats(lane)
  local score = digits(lane)
  local free = limit_of(lane) - redis.call('ZCOUNT', seats, score, score .. BY_RATE)
  if rule.interval and free > 0 then
    -- needs: slot_of
    free = not slot_of(lane) and redis.call('ZCOUNT', seats, score .. BY_RATE, score .. BY_RATE) == 0 and 1 or 0
  end
  return free, rule.interval and score .. BY_RATE or score
end
