-- Whether a free seat does not let the messages of a lane in: it is closed, or the lane of a dependency (lib/read_lane).
-- needs: setting, read_lane, lanes_read, is_closed
-- gives: is_gated
local function is_gated(number)
  local lane = (lanes_read[number] or setting('gated')) and read_lane(number)
  return lane and (lane.of == 'dependency' or is_closed(number)) or false
end
