-- Of all the clients that wait one is told when the next thing falls due (a scheduled message, a lease, a time to
-- live); the others sleep on. Without it a thousand of them would wake in the same millisecond.
local event
for _, index in ipairs({ scheduled, leases, expiring }) do
  local at = tonumber(redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')[2])
  if at and (not event or at < event) then
    event = at
  end
end
local taken = tonumber(redis.call('GET', alarm) or nil)
local another = event and taken and taken > now and taken <= event and alarmed ~= '1' -- who holds the alarm keeps it
if event and event <= now + patience and not another then
  reply[2] = math.max(event - now, 0)
  redis.call('SET', alarm, event, 'PX', reply[2] + 1000)
end
