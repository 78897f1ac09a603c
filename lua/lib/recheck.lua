-- Makes a lane due now whose gate is missing, or further away than a probe can be, since the clock stepped back, or whose
-- queue no longer has a breaker.
-- needs: now, setting, breaker, read_lane; keys: gates
-- gives: recheck
local function recheck(number)
  local lane, name = read_lane(number), string.format('%.0f', number)
  local at = tonumber(redis.call('ZSCORE', gates, name) or nil)
  local is_off = lane.open and not setting('breaker')
  if is_off or (lane.open or lane.drains) and not lane.paused and not (at and at <= now + breaker.longest) then
    redis.call('ZADD', gates, now, name)
  end
end
