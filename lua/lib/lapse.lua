-- The sweep of lapsed leases: what a claim still held comes back by the policy, charged (I15). A claim larger
-- than the limit is swept in parts: what is swept leaves its place in the list empty (lib/claimed), the lease stays
-- until the last part.
-- @include lib/holds
-- @include lib/let_go
-- @include lib/held

local function sweep_message(id, token, consumer)
  local text = redis.call('HGET', states, id)
  if not holds(token, text) then
    return 0
  end
  local record = held_record(id)
  if not record then
    return 1
  end
  local head = read_record(record)
  local failure = { charge = true, consumer = consumer, error = lapse_error }
  judge(id, parse_state(text, head.birth), head, 'lapsed', failure)
  return 1
end

local function sweep(limit)
  local looked = 0
  for _, token in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, limit)) do
    if looked == limit then
      break
    end
    local consumer, list = (redis.call('HGET', claims, token) or '\n'):match('^([^\n]*)\n(.*)$')
    local left, swept, more = {}, 0, false
    for id in (list .. '\n'):gmatch('([^\n]*)\n') do
      if id ~= '' and looked == limit then
        left[#left + 1], more = id, true
      else
        left[#left + 1] = ''
        if id ~= '' then
          looked = looked + 1
          swept = swept + sweep_message(id, token, consumer)
        end
      end
    end
    if not more then
      redis.call('HDEL', claims, token, token .. ':held')
      redis.call('ZREM', leases, token)
    else
      redis.call('HSET', claims, token, consumer .. '\n' .. table.concat(left, '\n'))
      if swept > 0 then -- minus nothing is "-0", which Redis does not count with
        let_go(token, swept)
      end
    end
  end
  return looked
end
