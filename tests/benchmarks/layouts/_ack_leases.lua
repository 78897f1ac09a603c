-- @include _holds
-- @include _let_go
-- @include _fence
local verdicts, acked, let = fenced(redis.call('HMGET', states, unpack(ids)))
if #acked > 0 then
  redis.call('HDEL', messages, unpack(acked))
  redis.call('HDEL', states, unpack(acked))
  redis.call('HINCRBY', counters, 'acked', #acked)
  for token, held in pairs(let) do
    let_go(token, held)
  end
end
return verdicts
