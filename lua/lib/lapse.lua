-- The sweep of lapsed leases: what a claim still held comes back by the policy, charged (I15). A claim larger
-- than the limit is swept in parts: its list shrinks, its lease stays until the last part.
local function sweep_message(id, token, consumer)
  local text, record = redis.call('HGET', states, id), redis.call('HGET', messages, id)
  if not holds(token, text) then
    return
  elseif not record then
    redis.call('HDEL', states, id) -- an ack was cut off
    return
  end
  local head = read_record(record)
  local failure = { charge = true, consumer = consumer, error = lapse_error }
  judge(id, parse_state(text, head.birth), head, 'lapsed', failure)
end

local function sweep(limit)
  local looked = 0
  for _, token in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, limit)) do
    local consumer, list = (redis.call('HGET', claims, token) or '\n'):match('^([^\n]*)\n(.*)$')
    local left = {}
    for id in list:gmatch('[^\n]+') do
      if looked == limit then
        left[#left + 1] = id
      else
        looked = looked + 1
        sweep_message(id, token, consumer)
      end
    end
    if #left == 0 then
      redis.call('HDEL', claims, token, token .. ':held')
      redis.call('ZREM', leases, token)
    else
      redis.call('HSET', claims, token, consumer .. '\n' .. table.concat(left, '\n'))
    end
  end
  return looked
end
