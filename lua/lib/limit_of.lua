-- How many messages of a lane may hold a seat: the limit of the rule, or the lane's own (lib/read_lane).
-- needs: rule, setting, read_lane, lanes_read
-- gives: limit_of
local function limit_of(number)
  local lane = rule.of_each and (lanes_read[number] or setting('limited')) and read_lane(number)
  return lane and tonumber(lane.limit) or rule.limit
end
