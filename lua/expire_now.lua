-- An operator has waiting messages expire, whatever their time to live. Returns the ids.
local messages, states, ready, scheduled, expiring = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local history, dead, expired = KEYS[6], KEYS[7], KEYS[8]
local counters, settings, outcomes, leases = KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local place = ARGV[1] -- ready or scheduled
-- items from ARGV[2]: id
-- @include lib/now
-- @include lib/record
-- @include lib/state
-- @include lib/place
-- @include lib/stand
-- @include lib/bury
-- @include lib/expire_message
-- @include lib/id_of
-- @include lib/chosen
local gone = {}
each_chosen(place == 'ready' and ready or scheduled, 2, 0, 0, function(id, state, head)
  expire_message(id, state, head)
  gone[#gone + 1] = id
end)
return gone
