-- Writes the special state of a lane (lib/read_lane), and when its next event is due: a probe, a step of the drain, the end of
-- a pause, or of the trust of an operator. nil: it has none any more, but for a limit of its own.
-- needs: now, lanes_read; keys: settings, gates, lanes
-- gives: write_lane

-- When its next event is due; nil: none is. A pause ends only by its own time.
local function next_event(lane)
  if lane.paused then
    return lane.ends
  end
  return lane.open and (lane.probe or now) or lane.drains and (lane.drain or now) or lane.trusts
end

local function write_lane(number, lane)
  local name, before = string.format('%.0f', number), lanes_read[number]
  lane = lane or before and before.limit and { of = before.of, name = before.name, limit = before.limit } or nil
  local is_closed_at_times = lane and (lane.paused or lane.open or lane.drains or lane.trusts)
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
  lane.due = is_closed_at_times and next_event(lane) or nil
  if lane.due then
    redis.call('ZADD', gates, string.format('%.0f', lane.due), name)
  else
    redis.call('ZREM', gates, name)
  end
  redis.call('HSET', lanes, name, cjson.encode(lane)) -- from here on it is in force
end
