-- E. The list of fresh ids is merged with the sorted set of the ready; one lease for each claim, as in A.
local messages, states, fresh, ready, scheduled = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local expiring, leases, claims, counters = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local token, count, lease, consumer = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
-- @include _now
-- @include _record
-- @include _place
-- @include _holds
-- @include _state
-- @include _hash
-- @include _given
-- @include _maintain
local USUAL = 4
local reply = given_before()
if reply then
  return reply
end
-- @include _lapse_claims
promote()
expire()
reply = {}
local rows = redis.call('ZRANGE', ready, 0, count - 1, 'WITHSCORES')
local listed = redis.call('LRANGE', fresh, 0, count - 1)
if #rows + #listed == 0 then
  return reply
end
local standing, members = {}, {}
for i = 1, #rows, 2 do
  members[#members + 1] = rows[i]
  standing[#standing + 1] = id_of(rows[i])
end
local function both(key)
  return #standing > 0 and redis.call('HMGET', key, unpack(standing)) or {},
    #listed > 0 and redis.call('HMGET', key, unpack(listed)) or {}
end
local records, listed_records = both(messages)
local texts = both(states)
local chosen, leased, mortal = {}, {}, {}
local function take(id, record, text)
  local expiry = record and expiry_of(record)
  if record and not (expiry and expiry <= now) then -- else it is dropped
    chosen[#chosen + 1] = id
    leased[#leased + 1], leased[#leased + 2] = id, text
    reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = id, record, text
    mortal[#mortal + 1] = expiry and id
  end
end
local first, from_ready, from_list = 'live +' .. token .. ' -' .. FIRST, 0, 0
while #chosen < count and (standing[from_ready + 1] or listed[from_list + 1]) do
  local r, l = from_ready + 1, from_list + 1
  local record, score = listed_records[l], tonumber(rows[2 * r])
  local born = score and record and math.floor(unpack_number(record, 1, 7) / 4096) or 0
  if score and (not listed[l] or score < (9 - USUAL) * BAND + born) then
    local text = texts[r] and delivered(texts[r], token) or 'live +' .. token .. ' ' .. score % BAND .. FIRST
    take(standing[r], records[r], text)
    from_ready = r
  else
    take(listed[l], record, first)
    from_list = l
  end
end
if #chosen > 0 then
  redis.call('ZADD', leases, now + lease, token)
  redis.call('HSET', claims, token, consumer .. '\n' .. table.concat(chosen, '\n'), token .. ':held', #chosen)
  redis.call('HSET', states, unpack(leased))
  redis.call('HINCRBY', counters, 'delivered', #chosen)
end
if from_ready > 0 then
  redis.call('ZREM', ready, unpack(members, 1, from_ready))
end
if from_list > 0 then
  redis.call('LTRIM', fresh, from_list, -1)
end
if #mortal > 0 then
  redis.call('ZREM', expiring, unpack(mortal))
end
return reply
