-- The messages that were acked are gone, and with them everything that was kept about them (I13).
local function remove_acked(ids)
  redis.call('HDEL', messages, unpack(ids)) -- from here on they are acked
  redis.call('HDEL', history, unpack(ids))
  redis.call('HDEL', states, unpack(ids)) -- the last: by it a sweep knows an ack that was cut off
  redis.call('HINCRBY', counters, 'acked', #ids)
end
