-- What is special about a lane: a table, as JSON in `lanes`; false: nothing, as of most. While a lane has one, the settings say
-- `gated`, or `limited` where it is a limit; lib/tend ends that.
--   of, name: key or dependency, and its text; due: when something falls due, as in `gates`; nil: nothing does
--   paused: since when somebody has paused it; ends: when that ends; nil: when somebody resumes it
--   limit: how many messages of a key may hold a seat, where that is not what the rule says
--   open: since when its breaker is; probes: how many there were; wait: milliseconds until the next one; idle: at the last one
--   nobody waited; dead: ids of those that died in the window that opened it
--   drains: since when success lets its messages in; trusts: until when no failures open it, since somebody resumed it
-- once
-- needs: read_json; keys: lanes
-- gives: read_lane, lanes_read
local lanes_read = {}

local function read_lane(number)
  if lanes_read[number] == nil then
    local text = redis.call('HGET', lanes, string.format('%.0f', number))
    lanes_read[number] = text and read_json(text) or false
  end
  return lanes_read[number]
end
