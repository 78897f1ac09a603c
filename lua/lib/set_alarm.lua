-- Tells one waiting client when the next event is due: a scheduled message, a lease, a time to live, a gate, a slot, the
-- end of a pause, one more message by the rate. The others keep sleeping; otherwise a thousand of them would wake in the
-- same millisecond. Returns the milliseconds until then, -1 for a client that keeps sleeping.
-- needs: now, capacity, paced, gated, resumes, by_rate
-- needs: keys: scheduled, expiring, leases, gates, slots, ready, alarm; args: alarmed, patience
-- gives: set_alarm
local function set_alarm()
  local event = resumes or by_rate and redis.call('ZCARD', ready) > 0 and by_rate.at or nil
  for _, index in ipairs({ scheduled, leases, expiring }) do
    local at = tonumber(redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')[2])
    if at and (not event or at < event) then
      event = at
    end
  end
  if gated then
    local at = tonumber(redis.call('ZRANGEBYSCORE', gates, now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2])
    event = at and math.min(event or at, at) or event
  end
  if paced and capacity > 0 then -- past slots are left to claims that may take messages
    local at = tonumber(redis.call('ZRANGE', slots, 0, 0, 'WITHSCORES')[2])
    event = at and math.min(event or math.huge, math.ceil(at)) or event
  end
  local taken = tonumber(redis.call('GET', alarm) or nil)
  -- The client that holds the alarm keeps it.
  local another = event and taken and taken > now and taken <= event and alarmed ~= '1'
  if not event or event > now + patience or another then
    return -1
  end
  local wait = math.max(event - now, 0)
  redis.call('SET', alarm, event, 'PX', wait + 1000)
  return wait
end
