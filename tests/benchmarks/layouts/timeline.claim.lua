-- C. One sorted set by visibility time: a claim moves what is visible to its deadline. What lapsed or
-- fell due is simply visible again, but behind its old place, in the order of deadlines.
local messages, states, timeline = KEYS[1], KEYS[2], KEYS[3]
local expiring, claims, counters = KEYS[4], KEYS[5], KEYS[6]
local token, count, lease, consumer = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
-- @include _now
-- @include _record
-- @include _holds
-- @include _state
-- @include _hash
-- @include _given
local STEPS = 100
local reply = given_before()
if reply then
  return reply
end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', expiring, '-inf', now, 'LIMIT', 0, STEPS)) do
  redis.call('ZREM', timeline, id)
  redis.call('ZREM', expiring, id)
  drop(id)
  redis.call('HINCRBY', counters, 'expired', 1)
end
reply = {}
local visible = string.format('%.0f', now * 4096 + 4095)
local ids = redis.call('ZRANGEBYSCORE', timeline, '-inf', visible, 'LIMIT', 0, count)
if #ids == 0 then
  return reply
end
local records = redis.call('HMGET', messages, unpack(ids))
local texts = redis.call('HMGET', states, unpack(ids))
local deadline = string.format('%.0f', (now + lease) * 4096)
local first = 'live +' .. token .. ' -' .. FIRST
local chosen, places, leased, mortal = {}, {}, {}, {}
for n, id in ipairs(ids) do
  local record, text = records[n], texts[n]
  local expiry = expiry_of(record)
  mortal[#mortal + 1] = expiry and id
  if text then
    local state, old = lapsed(text)
    text = delivered(state, token)
    redis.call('HDEL', claims, old)
  end
  if expiry and expiry <= now then
    redis.call('ZREM', timeline, id)
    drop(id)
    redis.call('HINCRBY', counters, 'expired', 1)
  else
    text = text or first
    chosen[#chosen + 1] = id
    places[#places + 1], places[#places + 2] = deadline, id
    leased[#leased + 1], leased[#leased + 2] = id, text
    reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = id, record, text
  end
end
if #mortal > 0 then
  redis.call('ZREM', expiring, unpack(mortal))
end
if #chosen > 0 then
  redis.call('ZADD', timeline, unpack(places))
  redis.call('HSET', claims, token, consumer .. '\n' .. table.concat(chosen, '\n'))
  redis.call('HSET', states, unpack(leased))
  redis.call('HINCRBY', counters, 'delivered', #chosen)
end
return reply
