-- Expires messages whose time to live has ended. An index holds the waiting messages that have one (I7). Returns how many
-- rows it checked.
-- needs: now, head_of, AGAIN, parse_state, expiry_of, expire_message; keys: states, expiring
-- gives: expire
local function expire(limit)
  local ids = redis.call('ZRANGEBYSCORE', expiring, '-inf', now, 'LIMIT', 0, limit)
  for _, id in ipairs(ids) do
    local text = redis.call('HGET', states, id)
    local head, later = head_of(id, text)
    local state = head and parse_state(text, head.birth)
    local waits = state and state.part == 'live' and state.mark == '-'
    local expires = waits and expiry_of(head, state)
    if later then
      redis.call('ZADD', expiring, now + AGAIN, id)
    elseif not expires then -- left behind by a script that was cut off
      redis.call('ZREM', expiring, id)
    elseif expires > now then
      redis.call('ZADD', expiring, expires, id)
    else
      expire_message(id, state, head)
    end
  end
  return #ids
end
