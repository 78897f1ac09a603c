-- The messages that were acked are gone, and with them everything that was kept about them (I13).
local function remove_acked(ids)
  local noted, records, texts = redis.call('HGET', settings, 'outcomes'), nil, nil
  if noted then
    records, texts = redis.call('HMGET', messages, unpack(ids)), redis.call('HMGET', states, unpack(ids))
  end
  redis.call('HDEL', messages, unpack(ids)) -- from here on they are acked
  redis.call('HDEL', history, unpack(ids))
  redis.call('HDEL', states, unpack(ids)) -- the last: by it a sweep knows an ack that was cut off
  redis.call('HINCRBY', counters, 'acked', #ids)
  if noted then
    -- @include lib/note_acked
  end
end
