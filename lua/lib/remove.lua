-- Removes a waiting message and everything that was kept about it (I13).
-- needs: keys: messages, states, history, expiring
-- gives: remove
local function remove(id, index, member)
  redis.call('HDEL', messages, id) -- from here on it is gone
  redis.call('HDEL', states, id)
  redis.call('HDEL', history, id)
  redis.call('ZREM', expiring, id)
  redis.call('ZREM', index, member) -- the last: by it a claim finds what was left behind
end
