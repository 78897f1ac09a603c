-- Lets in messages of a dependency that is up again, never more than 32 at a time, or as many as the last batch that
-- succeeded had, so that other messages do not wait behind a flood. If none is out any more, it goes on by probes
-- (lib/pass_gates). When none is blocked, and none is ready or being processed, the drain ends.
--   count: the most messages that this call lets in
-- needs: now, digits, breaker, hung_wait, count_parked, parked_rows, let_through, write_lane; keys: seats
-- gives: drain
local AT_ONCE = 32 -- ready or being processed

local function drain(number, lane, count)
  local name = digits(number)
  local room = math.max(AT_ONCE, lane.most or 0) - redis.call('ZCOUNT', seats, name, name)
  count = math.max(0, math.min(count, room))
  if count > 0 then
    let_through(number, parked_rows(number, count), count)
  end
  local waiting, out = count_parked(number), redis.call('ZCOUNT', seats, name, name)
  local longest, hung = hung_wait(name)
  lane.hung = hung > 0 and lane.hung or nil
  if waiting + out + hung > 0 then
    lane.drain = now + (out == 0 and hung > 0 and (waiting > 0 and longest or breaker.longest) or breaker.probe)
  else
    lane.drains, lane.drain, lane.most = nil, nil, nil
  end
  write_lane(number, lane)
end
