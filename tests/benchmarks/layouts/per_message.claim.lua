-- B. One lease for each message: a sorted set of ids. The ids of a claim are kept only for its repetition.
local messages, states, ready, scheduled = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local expiring, leased_ids, claims, counters = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local token, count, lease, consumer = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
-- @include _now
-- @include _record
-- @include _place
-- @include _holds
-- @include _state
-- @include _hash
-- @include _given
-- @include _maintain
-- @include _choose
local reply = given_before()
if reply then
  return reply
end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', leased_ids, '-inf', now, 'LIMIT', 0, STEPS)) do
  local text = state_of(id)
  local _, old = lapsed(text)
  give_back(id, text)
  redis.call('ZREM', leased_ids, id)
  redis.call('HDEL', claims, old)
end
promote()
expire()
local chosen, leased, members
reply, chosen, leased, members = choose()
if #chosen > 0 then
  local deadline, deadlines = string.format('%.0f', now + lease), {}
  for n, id in ipairs(chosen) do
    deadlines[2 * n - 1], deadlines[2 * n] = deadline, id
  end
  redis.call('ZADD', leased_ids, unpack(deadlines))
  redis.call('HSET', claims, token, consumer .. '\n' .. table.concat(chosen, '\n'))
  redis.call('HSET', states, unpack(leased))
  redis.call('HINCRBY', counters, 'delivered', #chosen)
end
if #members > 0 then
  redis.call('ZREM', ready, unpack(members))
end
return reply
