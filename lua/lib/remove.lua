-- A message that waits is gone, with everything that was kept about it (I13).
local function remove(id, index, member)
  redis.call('HDEL', messages, id) -- from here on it is gone
  redis.call('HDEL', states, id)
  redis.call('HDEL', history, id)
  redis.call('ZREM', expiring, id)
  redis.call('ZREM', index, member) -- the last: by it a claim finds what was cut off
end
