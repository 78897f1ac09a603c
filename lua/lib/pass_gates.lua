-- Handles due events of lanes: a probe, the end of a pause, or of the time in which failures do not open a breaker.
-- needs: now, setting, read_lane, write_lane, reopen, probe, drain; keys: gates, seats
-- gives: pass_gates
local LANES = 10 -- lanes per call (I9)

local function pass_gates()
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', gates, '-inf', now, 'LIMIT', 0, LANES)) do
    local number = tonumber(name)
    local lane = read_lane(number)
    if lane and lane.open and setting('breaker') then
      lane.paused, lane.ends, lane.by = nil, nil, nil
      probe(number, lane)
    elseif lane and (lane.open or lane.paused) then
      reopen(number, lane)
    elseif lane and lane.drains then
      drain(number, lane, redis.call('ZCOUNT', seats, number, number) == 0 and 1 or 0)
    else
      write_lane(number, nil)
    end
  end
end
