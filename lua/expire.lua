-- The waiting messages whose time to live is over go to the expiry queue. Returns how many were looked at.
local messages, states, ready, scheduled, expiring = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local history, dead, expired = KEYS[6], KEYS[7], KEYS[8]
local counters, settings, outcomes = KEYS[9], KEYS[10], KEYS[11]
local limit = ARGV[1]
-- @include lib/now
-- @include lib/record
-- @include lib/state
-- @include lib/place
-- @include lib/stand
-- @include lib/bury
-- @include lib/expiry
return expire(limit)
