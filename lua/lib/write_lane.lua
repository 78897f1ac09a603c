-- Writes what is special about a lane (lib/read_lane), and when something about it falls due; nil: nothing is special any more.
-- needs: lanes_read; keys: settings, gates, lanes
-- gives: write_lane
local function write_lane(number, lane)
  local name = string.format('%.0f', number)
  lanes_read[number] = lane or false
  if not lane then
    redis.call('HDEL', lanes, name)
    redis.call('ZREM', gates, name)
    return
  end
  redis.call('HSET', settings, 'gated', 1)
  if lane.due then
    redis.call('ZADD', gates, string.format('%.0f', lane.due), name)
  else
    redis.call('ZREM', gates, name)
  end
  redis.call('HSET', lanes, name, cjson.encode(lane)) -- from here on it counts
end
