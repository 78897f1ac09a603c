-- Discards a message, as the queue's settings say; it is counted (I14).
-- needs: keys: messages, states, history, counters
-- gives: discard
local function discard(id)
  redis.call('HDEL', messages, id) -- from here on it is discarded
  redis.call('HDEL', history, id)
  redis.call('HDEL', states, id) -- the last: it tells a sweep that a discard was cut off
  redis.call('HINCRBY', counters, 'discarded', 1)
end
