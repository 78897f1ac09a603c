-- Makes a lane due now whose gate is missing, or further away than a probe can be, since the clock stepped back, or calls
-- that hung have ended, or the queue no longer has a breaker. A pause is left as it is.
-- needs: now, setting, hung_wait, read_lane; keys: gates
-- gives: recheck
local function recheck(number)
  local lane, name = read_lane(number), string.format('%.0f', number)
  if not (lane.open or lane.drains) or lane.paused then
    return
  end
  local at = tonumber(redis.call('ZSCORE', gates, name) or nil)
  local longest = hung_wait(name)
  if lane.open and not setting('breaker') or not (at and at <= now + longest) then
    redis.call('ZADD', gates, now, name)
  end
end
