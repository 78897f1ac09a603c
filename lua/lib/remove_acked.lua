-- Removes messages that were acked, and everything that was kept about them (I13).
-- needs: keys: messages, states, history, counters, settings
-- gives: remove_acked
local function remove_acked(ids)
  local noted, heads, texts = redis.call('HGET', settings, 'outcomes'), {}, nil
  if noted then
    -- needs: head_of
    texts = redis.call('HMGET', states, unpack(ids))
    for n, id in ipairs(ids) do
      heads[n] = head_of(id, texts[n])
    end
  end
  redis.call('HDEL', messages, unpack(ids)) -- from here on they are acked
  redis.call('HDEL', history, unpack(ids))
  redis.call('HDEL', states, unpack(ids)) -- the last: it tells a sweep that an ack was cut off
  redis.call('HINCRBY', counters, 'acked', #ids)
  if noted then
    -- needs: note_acked
    note_acked(ids, heads, texts)
  end
end
