-- The score in `scheduled` of a new message with a key that gets no seat of its lane; false: it gets one.
-- needs: lane_in, enter, BLOCKED
-- gives: score_in_lane
local full = {} -- lanes

local function score_in_lane(id, payload)
  local lane = lane_in(payload, 2)
  return lane and not enter(id, lane, full) and BLOCKED + lane
end
