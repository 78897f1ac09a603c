-- How many messages a claim may lease: none while the queue is paused, and never more than the queue's max_in_flight
-- leaves. A message that waits for its redelivery is not in flight; a dead letter that is claimed is, and so is the call of a
-- cancelled message, until it has ended. A value, not a
-- function: every claim needs it, and to define a function costs Redis as much as a command. A claim ends here if the queue
-- was deleted since the client opened it. `per_key`, `gated`: the settings of keys and of closed lanes; `paced`: whether
-- keys have a rate; `narrowed`: whether lanes may have too many seats (lib/narrow); `resumes`: when the pause ends, nil: it
-- has no end, or the queue is not paused; `by_rate`: the messages that the rate allows (lib/pace), nil: no rate.
-- needs: now; keys: messages, ready, scheduled, dead, expired, settings; args: part, count, opening
-- gives: capacity, per_key, paced, gated, narrowed, resumes, by_rate
local capacity, per_key, paced, gated, narrowed, resumes, by_rate = count, nil, nil, nil, nil, nil, nil
if part == 'live' then
  local values = redis.call(
    'HMGET', settings, 'paused', 'max_in_flight', 'opening', 'per_key', 'gated', 'paused_until', 'rate', 'narrowed',
    'cancelling'
  )
  if opening ~= '' and values[3] ~= opening then
    return { now, -3 }
  end
  per_key, gated, narrowed = values[4], values[5], values[8]
  paced = per_key and per_key:find('rate ', 1, true)
  local most = tonumber((values[2] or ''):match('^%d+$') or nil)
  resumes = values[1] == '1' and tonumber(values[6] or nil) or nil
  if resumes and resumes <= now then
    redis.call('HDEL', settings, 'paused', 'paused_until')
    values[1], resumes = false, nil
  end
  if values[1] == '1' then
    capacity = 0
  elseif most and most > 0 then
    local in_flight = redis.call('HLEN', messages)
    if values[9] then
      -- needs: cancelled_calls
      in_flight = in_flight + cancelled_calls()
    end
    for _, index in ipairs({ ready, scheduled, dead, expired }) do
      in_flight = in_flight - redis.call('ZCARD', index)
    end
    capacity = math.max(0, math.min(count, most - in_flight))
  end
  if values[7] then
    -- needs: pace; keys: counters
    by_rate = pace(values[7], redis.call('HGET', counters, 'rate_until'))
    capacity = math.min(capacity, by_rate and by_rate.most or capacity)
  end
  if per_key or gated then
    -- needs: prepare_lanes
    prepare_lanes(per_key, paced, gated, capacity)
  end
end
