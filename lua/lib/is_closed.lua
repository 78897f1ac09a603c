-- Whether claims hand out nothing of a lane (lib/read_lane), except messages that were let through its gate.
-- needs: now, setting, read_lane, lanes_read
-- gives: is_closed
local function is_closed(number)
  local lane = (lanes_read[number] or setting('gated')) and read_lane(number)
  return lane and (lane.open or lane.paused and (not lane.ends or lane.ends > now)) and true or false
end
