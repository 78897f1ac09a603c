-- An operator sends waiting messages to the dead-letter queue. Returns the ids.
local messages, states, ready, scheduled, expiring = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local history, dead, expired = KEYS[6], KEYS[7], KEYS[8]
local counters, settings, outcomes, leases = KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local place, by, reason = ARGV[1], ARGV[2], ARGV[3] -- place: ready, scheduled or expired; reason: cells of a cause
-- items from ARGV[4]: id
-- @include lib/now
-- @include lib/record
-- @include lib/state
-- @include lib/place
-- @include lib/stand
-- @include lib/bury
-- @include lib/history
-- @include lib/remember_expiry
-- @include lib/id_of
-- @include lib/chosen
local index = ({ ready = ready, scheduled = scheduled, expired = expired })[place]
local buried = {}
each_chosen(index, 4, 0, 0, function(id, state, head, member)
  remember_expiry(id, state)
  remember(id, 'dead_lettered', state.deliveries, 0, by, reason)
  bury(id, state, head, 'dead', 'poison', { cause = 'dead_lettered', consumer = by, error = reason })
  redis.call('ZREM', index, member)
  redis.call('ZREM', expiring, id)
  buried[#buried + 1] = id
end)
return buried
