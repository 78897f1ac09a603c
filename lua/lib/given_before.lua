-- Writes to `reply` the messages that this token was given before and still holds: the reply of a claim that is repeated
-- (I12). given: the token's text in `claims`. Returns whether it holds any.
-- needs: holds, now; keys: messages, states, history, leases; args: token, answer, lease
-- gives: given_before
local function given_before(given, reply)
  local holding, bytes = false, 0
  for id in given:match('\n.*'):gmatch('[^\n]+') do
    local text, record = redis.call('HGET', states, id), redis.call('HGET', messages, id)
    if record and holds(token, text) then
      holding, bytes = true, bytes + #record
      if answer == 'rows' then
        reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = id, record, text
        reply[#reply + 1] = redis.call('HGET', history, id) or ''
      end
    end
  end
  if not holding then
    return false
  end
  if answer == 'count' then
    reply[3] = select(2, given:gsub('\n', '\n')) -- all that it was given: the number of lines of its list
    reply[4] = bytes -- of the messages that it still holds
  end
  redis.call('ZADD', leases, now + lease, token) -- the client counts its lease from this reply
  return true
end
