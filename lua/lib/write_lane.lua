-- Writes the special state of a lane (lib/read_lane), and when an event of the lane is due; nil: none any more, but for a
-- limit of its own.
-- needs: lanes_read; keys: settings, gates, lanes
-- gives: write_lane
local function write_lane(number, lane)
  local name, before = string.format('%.0f', number), lanes_read[number]
  lane = lane or before and before.limit and { of = before.of, name = before.name, limit = before.limit } or nil
  local is_closed_at_times = lane and (lane.paused or lane.open or lane.due)
  if lane and not is_closed_at_times and not lane.limit then
    lane = nil
  end
  lanes_read[number] = lane or false
  if not lane then
    redis.call('HDEL', lanes, name)
    redis.call('ZREM', gates, name)
    return
  end
  if is_closed_at_times then
    redis.call('HSET', settings, 'gated', 1)
  end
  if lane.limit then
    redis.call('HSET', settings, 'limited', 1)
  end
  if lane.due then
    redis.call('ZADD', gates, string.format('%.0f', lane.due), name)
  else
    redis.call('ZREM', gates, name)
  end
  redis.call('HSET', lanes, name, cjson.encode(lane)) -- from here on it is in force
end
