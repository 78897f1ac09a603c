-- The special state of a lane: a table, as JSON in `lanes`; false: none, as for most lanes. While a lane has one, the
-- settings have `gated`, or `limited` if it is a limit; lib/tend removes that.
--   of, name: key or dependency, and its text; due: when an event of the lane is due, as in `gates`; nil: none is
--   paused: since when it is paused; ends: when that ends; nil: when an operator resumes it
--   by: the operator who paused it, as JSON; nil: a handler did (lib/pause_key), or an earlier version
--   limit: how many messages of a key may hold a seat, if that differs from the rule
--   open: since when its breaker is; probe: when the next probe is due; probes: how many there were; wait: milliseconds
--   after it until another one; idle: no message waited at the last one; hung: since when a call that was let through hangs
--   (lib/end_pass); error: the newest, the first cell of a cause
--   died, dead: how many messages died of the failures that opened it, and the ids of the newest of them
--   drains: since when success lets its messages in; drain: when the next step of that is due; most: how many messages were
--   acked by the last ack of one of them; trusts: until when failures do not open it, since an operator closed it
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
