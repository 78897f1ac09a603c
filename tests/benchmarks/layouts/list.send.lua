-- E. A list of ids for the fresh messages of the usual priority; what is delayed, returned or of another
-- priority stands in sorted sets, as in A. No message can be taken out of the list but at its head.
local messages, fresh, ready, scheduled = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local expiring, counters = KEYS[5], KEYS[6]
local delay, ttl = tonumber(ARGV[1]), tonumber(ARGV[2]) -- milliseconds; ttl 0: none
-- @include _now
-- @include _record
-- @include _place
-- @include _new
local USUAL = 4
local due = delay > 0 and now + delay
local records, usual, places, deadlines = {}, {}, {}, {}
each_new(redis.call('HMGET', messages, unpack(ids)), function(id, record, priority, birth)
  records[#records + 1] = id
  records[#records + 1] = record
  if priority == USUAL and not due then
    usual[#usual + 1] = id
  else
    places[#places + 1] = due or score_of(priority, math.floor(birth / 4096))
    places[#places + 1] = member_of(id, priority, birth, due or math.floor(birth / 4096))
  end
  if ttl > 0 then
    deadlines[#deadlines + 1] = now + ttl
    deadlines[#deadlines + 1] = id
  end
end)
if #records > 0 then
  redis.call('HSET', messages, unpack(records))
end
if #usual > 0 then
  redis.call('RPUSH', fresh, unpack(usual))
end
if #places > 0 then
  redis.call('ZADD', due and scheduled or ready, unpack(places))
end
if #deadlines > 0 then
  redis.call('ZADD', expiring, unpack(deadlines))
end
return #records / 2
