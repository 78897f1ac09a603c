-- Moves messages of a committed job from the head of one of its lists into the queue. Returns how many; 0: there are
-- no more, or it is too early for one who has not committed them.
local messages, states, ready, scheduled = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local expiring, counters, wake, settings = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local committed, staged = KEYS[9], KEYS[10]
local member, limit, delay, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]) -- milliseconds
local early = ARGV[5] -- 1: by who has committed them
-- @include lib/now
-- @include lib/record
-- @include lib/place
-- @include lib/wake
-- @include lib/add
local due = tonumber(redis.call('ZSCORE', committed, member) or nil)
if not due or (due > now and early ~= '1') then
  return 0
end
local items = redis.call('LRANGE', staged, 0, 2 * limit - 1) -- id, payload, …
if #items > 0 then
  add(items, 1, #items, delay, ttl)
  redis.call('LTRIM', staged, #items, -1) -- cut off before, they are added again, which changes nothing (I12)
end
if redis.call('EXISTS', staged) == 0 then
  redis.call('ZREM', committed, member)
end
return #items / 2
