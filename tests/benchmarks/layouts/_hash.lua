-- One message at a time, for the rare steps: records and states are fields of two hashes.
local function record_of(id)
  return redis.call('HGET', messages, id)
end

local function state_of(id)
  return redis.call('HGET', states, id)
end

local function set_state(id, text)
  redis.call('HSET', states, id, text)
end

local function drop(id)
  redis.call('HDEL', messages, id)
  redis.call('HDEL', states, id)
end
