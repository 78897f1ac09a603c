-- The record of a held message; nil where an ack or a discard was cut off, whose remains are removed.
-- needs: keys: messages, states, history
-- gives: held_record
local function held_record(id)
  local record = redis.call('HGET', messages, id)
  if not record then
    redis.call('HDEL', history, id)
    redis.call('HDEL', states, id)
  end
  return record
end
