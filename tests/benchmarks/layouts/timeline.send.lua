-- C. One sorted set by visibility time: the score is millisecond * 4096 + number, the member the id.
-- The usual compromise on priority: each step goes before what was sent in the hour before. It holds only for
-- what is visible at once; a delayed message loses it, since a lower score would show it early.
local messages, timeline, expiring, counters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local delay, ttl = tonumber(ARGV[1]), tonumber(ARGV[2]) -- milliseconds; ttl 0: none
-- @include _now
-- @include _record
-- @include _new
local HOUR = 3600000 * 4096
local records, places, deadlines = {}, {}, {}
each_new(redis.call('HMGET', messages, unpack(ids)), function(id, record, priority, birth)
  local score = delay > 0 and (now + delay) * 4096 + birth % 4096 or birth - priority * HOUR
  records[#records + 1] = id
  records[#records + 1] = record
  places[#places + 1] = string.format('%.0f', score)
  places[#places + 1] = id
  if ttl > 0 then
    deadlines[#deadlines + 1] = now + ttl
    deadlines[#deadlines + 1] = id
  end
end)
if #records > 0 then
  redis.call('HSET', messages, unpack(records))
  redis.call('ZADD', timeline, unpack(places))
  if ttl > 0 then
    redis.call('ZADD', expiring, unpack(deadlines))
  end
end
return #records / 2
