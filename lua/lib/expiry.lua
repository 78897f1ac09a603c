-- Messages whose time to live is over, found by an index of those that have one and wait (I7).
-- @include lib/expire_message
local function expire(limit)
  local ids = redis.call('ZRANGEBYSCORE', expiring, '-inf', now, 'LIMIT', 0, limit)
  for _, id in ipairs(ids) do
    local record, text = redis.call('HGET', messages, id), redis.call('HGET', states, id)
    local head = record and read_record(record)
    local state = record and parse_state(text, head.birth)
    if state and state.part == 'live' and state.mark == '-' then
      expire_message(id, state, head)
    else
      redis.call('ZREM', expiring, id) -- left behind by a script that was cut off
    end
  end
  return #ids
end
