-- How many messages a claim may take: none while the queue is paused, and with those in flight never more than the
-- queue's max_in_flight. What waits for its redelivery is not in flight; a dead letter that someone has claimed is.
local said = redis.call('HMGET', settings, 'paused', 'max_in_flight')
local most = tonumber((said[2] or ''):match('^%d+$') or nil)
if said[1] == '1' then
  room = 0
elseif most and most > 0 then
  local in_flight = redis.call('HLEN', messages)
  for _, index in ipairs({ ready, scheduled, dead, expired }) do
    in_flight = in_flight - redis.call('ZCARD', index)
  end
  room = math.max(0, math.min(count, most - in_flight))
end
