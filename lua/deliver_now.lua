-- Scheduled messages become ready at once, at the place where they were born, so ahead of what came later (I8).
-- Returns the ids.
local messages, states, ready, scheduled, expiring = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local history, dead, expired, wake, leases = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
-- items from ARGV[1]: id
-- @include lib/now
-- @include lib/record
-- @include lib/state
-- @include lib/place
-- @include lib/stand
-- @include lib/wake
-- @include lib/id_of
-- @include lib/chosen
local delivered = {}
each_chosen(scheduled, 1, 0, 0, function(id, state, head, member)
  state.due = math.min(now, math.floor(head.birth / 4096))
  stand(id, state, head)
  redis.call('ZREM', scheduled, member)
  delivered[#delivered + 1] = id
end)
if #delivered > 0 then
  wake_one()
end
return delivered
