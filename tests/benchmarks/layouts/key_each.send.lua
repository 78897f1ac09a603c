-- D. A key for each message, a hash of record and state. For reference: such keys cannot be declared.
local message, ready, scheduled, expiring, counters = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local delay, ttl = tonumber(ARGV[1]), tonumber(ARGV[2]) -- milliseconds; ttl 0: none
-- @include _now
-- @include _record
-- @include _place
-- @include _new
local due = delay > 0 and now + delay
local places, deadlines, known = {}, {}, {}
for n, id in ipairs(ids) do
  known[n] = redis.call('EXISTS', message .. id) == 1
end
each_new(known, function(id, record, priority, birth)
  redis.call('HSET', message .. id, 'record', record)
  places[#places + 1] = due or score_of(priority, math.floor(birth / 4096))
  places[#places + 1] = member_of(id, priority, birth, due or math.floor(birth / 4096))
  if ttl > 0 then
    deadlines[#deadlines + 1] = now + ttl
    deadlines[#deadlines + 1] = id
  end
end)
if #places > 0 then
  redis.call('ZADD', due and scheduled or ready, unpack(places))
  if ttl > 0 then
    redis.call('ZADD', expiring, unpack(deadlines))
  end
end
return #places / 2
