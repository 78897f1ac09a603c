-- One message at a time: record and state are fields of the message's own key.
local function record_of(id)
  return redis.call('HGET', message .. id, 'record')
end

local function state_of(id)
  return redis.call('HGET', message .. id, 'state')
end

local function set_state(id, text)
  redis.call('HSET', message .. id, 'state', text)
end

local function drop(id)
  redis.call('DEL', message .. id)
end
