-- A. One lease for each claim: a sorted set of tokens, a hash with the ids that each token holds.
local messages, states, ready, scheduled = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local expiring, leases, claims, counters = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
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
-- @include _lapse_claims
promote()
expire()
local chosen, leased, members
reply, chosen, leased, members = choose()
if #chosen > 0 then
  redis.call('ZADD', leases, now + lease, token)
  redis.call('HSET', claims, token, consumer .. '\n' .. table.concat(chosen, '\n'), token .. ':held', #chosen)
  redis.call('HSET', states, unpack(leased))
  redis.call('HINCRBY', counters, 'delivered', #chosen)
end
if #members > 0 then
  redis.call('ZREM', ready, unpack(members))
end
return reply
