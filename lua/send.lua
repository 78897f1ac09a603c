-- Adds messages to the queue; a call whose reply was lost can be repeated. Returns the places (1, 2, …) of the items
-- that the queue knew already.
local messages, states, ready, scheduled = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local expiring, counters, wake, settings = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local delay, ttl = tonumber(ARGV[1]), tonumber(ARGV[2]) -- milliseconds; ttl 0: none
-- items from ARGV[3]: id, payload (its first byte the flags, without the expiry's)
-- @include lib/now
-- @include lib/record
-- @include lib/place
-- @include lib/wake
-- @include lib/add
return add(ARGV, 3, #ARGV, delay, ttl)
