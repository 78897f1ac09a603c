-- Lets one message of a dependency through whose breaker is open, if none is on its way: each time another of the first
-- twenty, so that no message keeps it open. The wait until the next one doubles. If no message waits twice in a row, the
-- breaker is closed.
-- needs: now, BLOCKED, digits, breaker, let_through, write_lane; keys: scheduled, seats
-- gives: probe
local FIRST = 20

local function probe(number, lane)
  local score = digits(BLOCKED + number)
  local waiting = redis.call('ZCOUNT', scheduled, score, score)
  local wait = math.min(lane.wait or breaker.probe, breaker.longest)
  lane.due = now + wait
  if redis.call('ZCOUNT', seats, number, number) > 0 then
    lane.due = now + breaker.probe
  elseif waiting > 0 then
    let_through(number, 1, lane.probes % math.min(FIRST, waiting))
    lane.probes, lane.wait, lane.idle = lane.probes + 1, 2 * wait, nil
  elseif lane.idle then
    lane = nil
  else
    lane.idle, lane.due = true, now + breaker.longest
  end
  write_lane(number, lane)
end
