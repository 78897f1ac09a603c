-- Tests a dependency whose breaker is open, if no message is on its way. The wait until the next probe doubles. Beside calls
-- that hang, one message comes instead of three, and later (lib/hung_wait). If no message waits twice in a row, and none
-- hangs, the breaker is closed.
-- needs: now, digits, breaker, hung_wait, count_parked, let_probe, write_lane, note_audit; keys: seats; args: seed
-- gives: probe
local AT_A_TIME = 3

local function probe(number, lane)
  local name, wait = digits(number), math.min(lane.wait or breaker.probe, breaker.longest)
  local longest, hung = hung_wait(name)
  lane.probe = now + (hung > 0 and longest or wait)
  lane.hung = hung > 0 and lane.hung or nil
  if redis.call('ZCOUNT', seats, name, name) > 0 then
    lane.probe = now + breaker.probe
  elseif count_parked(number) > 0 then
    lane.wait, lane.idle = 2 * wait, nil
    let_probe(number, lane, hung > 0 and 1 or AT_A_TIME, tonumber(seed))
  elseif lane.idle and hung == 0 then
    note_audit('closed', '"breaker"', '', 'number', 0, 'chosen', 'dependency ' .. lane.name)
    lane = nil
  else
    lane.idle, lane.probe = true, now + longest
  end
  write_lane(number, lane)
end
