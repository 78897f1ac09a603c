-- D. A key for each message; one lease for each claim, as in A.
local message, ready, scheduled = KEYS[1], KEYS[2], KEYS[3]
local expiring, leases, claims, counters = KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local token, count, lease, consumer = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
-- @include _now
-- @include _record
-- @include _place
-- @include _holds
-- @include _state
-- @include _key
-- @include _given
-- @include _maintain
local reply = given_before()
if reply then
  return reply
end
-- @include _lapse_claims
promote()
expire()
reply = {}
local members = redis.call('ZRANGE', ready, 0, count - 1)
local chosen, head = {}, 'live +' .. token .. ' '
for _, member in ipairs(members) do
  local id = id_of(member)
  local both = redis.call('HMGET', message .. id, 'record', 'state')
  local record, text, expiry = both[1], both[2], expiry_of(both[1])
  if not expiry or expiry > now then -- else the next expire() drops it
    text = text and delivered(text, token) or head .. due_of(member) .. FIRST
    set_state(id, text)
    chosen[#chosen + 1] = id
    reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = id, record, text
    if expiry then
      redis.call('ZREM', expiring, id)
    end
  end
end
if #chosen > 0 then
  redis.call('ZADD', leases, now + lease, token)
  redis.call('HSET', claims, token, consumer .. '\n' .. table.concat(chosen, '\n'), token .. ':held', #chosen)
  redis.call('HINCRBY', counters, 'delivered', #chosen)
end
if #members > 0 then
  redis.call('ZREM', ready, unpack(members))
end
return reply
