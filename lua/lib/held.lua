-- The record of a message that is held; nil where an ack or a discard was cut off: what it left behind goes, too.
local function held_record(id)
  local record = redis.call('HGET', messages, id)
  if not record then
    redis.call('HDEL', history, id)
    redis.call('HDEL', states, id)
  end
  return record
end
