-- Done: the messages are gone, and with them everything that was kept about them (I13).
local messages, states, history = KEYS[1], KEYS[2], KEYS[3]
local leases, claims, counters = KEYS[4], KEYS[5], KEYS[6]
-- items from ARGV[1]: id, token
-- @include lib/settle
local acked = {}
return settle(1, 2, function(id)
  acked[#acked + 1] = id
end, function()
  redis.call('HDEL', messages, unpack(acked)) -- from here on they are acked
  redis.call('HDEL', history, unpack(acked))
  redis.call('HDEL', states, unpack(acked)) -- the last: by it a sweep knows an ack that was cut off
  redis.call('HINCRBY', counters, 'acked', #acked)
end)
