-- C. One sorted set by visibility time. The first ack of a claim proves that its reply arrived, as in B.
local messages, states, timeline, claims, counters = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
-- @include _holds
-- @include _fence
local verdicts, acked, let = fenced(redis.call('HMGET', states, unpack(ids)))
if #acked > 0 then
  redis.call('HDEL', messages, unpack(acked))
  redis.call('HDEL', states, unpack(acked))
  redis.call('ZREM', timeline, unpack(acked))
  redis.call('HINCRBY', counters, 'acked', #acked)
  for token in pairs(let) do
    redis.call('HDEL', claims, token)
  end
end
return verdicts
