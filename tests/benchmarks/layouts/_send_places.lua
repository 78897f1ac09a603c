local delay, ttl = tonumber(ARGV[1]), tonumber(ARGV[2]) -- milliseconds; ttl 0: none
-- @include _now
-- @include _record
-- @include _place
-- @include _new
local due = delay > 0 and now + delay
local records, places, deadlines = {}, {}, {}
each_new(redis.call('HMGET', messages, unpack(ids)), function(id, record, priority, birth)
  records[#records + 1] = id
  records[#records + 1] = record
  places[#places + 1] = due or score_of(priority, math.floor(birth / 4096))
  places[#places + 1] = member_of(id, priority, birth, due or math.floor(birth / 4096))
  if ttl > 0 then
    deadlines[#deadlines + 1] = now + ttl
    deadlines[#deadlines + 1] = id
  end
end)
if #records > 0 then
  redis.call('HSET', messages, unpack(records))
  redis.call('ZADD', due and scheduled or ready, unpack(places))
  if ttl > 0 then
    redis.call('ZADD', expiring, unpack(deadlines))
  end
end
return #records / 2
