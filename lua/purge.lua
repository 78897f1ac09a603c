-- Removes messages that wait, for good; what is leased is left alone. Returns the ids.
local messages, states, ready, scheduled, expiring = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local history, dead, expired = KEYS[6], KEYS[7], KEYS[8]
local counters, settings, outcomes, leases = KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local place, limit, before = ARGV[1], ARGV[2], ARGV[3] -- place: ready, scheduled, dead or expired
-- items from ARGV[4]: id; none: the first `limit` whose score is no higher than `before`
-- @include lib/now
-- @include lib/record
-- @include lib/state
-- @include lib/place
-- @include lib/id_of
-- @include lib/chosen
-- @include lib/remove
-- @include lib/outcome
local index = ({ ready = ready, scheduled = scheduled, dead = dead, expired = expired })[place]
local purged = {}
each_chosen(index, 4, limit, before, function(id, state, head, member)
  remove(id, index, member)
  outcome('purged', id, head, state, 0)
  purged[#purged + 1] = id
end)
if #purged > 0 then
  redis.call('HINCRBY', counters, 'purged', #purged)
end
return purged
