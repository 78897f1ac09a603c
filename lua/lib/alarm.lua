-- When the next thing falls due: a scheduled message, a lease, a time to live.
local function next_event()
  local earliest
  for _, index in ipairs({ scheduled, leases, expiring }) do
    local at = tonumber(redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')[2])
    if at and (not earliest or at < earliest) then
      earliest = at
    end
  end
  return earliest
end

-- Of all the clients that wait on a queue one is told when that is; the others sleep on. Without it a thousand
-- of them would wake in the same millisecond. Milliseconds, or -1 for those who may sleep.
local function take_alarm(patience)
  local event, taken = next_event(), tonumber(redis.call('GET', alarm) or nil)
  if not event or event > now + patience or (taken and taken > now and taken <= event) then
    return -1
  end
  redis.call('SET', alarm, event, 'PX', math.max(event - now, 0) + 1000)
  return math.max(event - now, 0)
end
