-- Dead letters (or expired messages) back to their queue: the same id, a fresh budget, the history kept. One
-- step for each message, so none is lost or doubled on the way. Returns the ids.
local messages, states, ready, scheduled, expiring = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local history, dead, expired = KEYS[6], KEYS[7], KEYS[8]
local counters, wake, settings, outcomes, leases = KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local part, limit, before, by = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
-- items from ARGV[5]: id; none: the oldest `limit` of those that died before `before`, a time taken when the
-- redrive began, so that what dies again meanwhile is not redriven again
-- @include lib/now
-- @include lib/record
-- @include lib/state
-- @include lib/place
-- @include lib/stand
-- @include lib/history
-- @include lib/remember_expiry
-- @include lib/outcome
-- @include lib/wake
-- @include lib/id_of
-- @include lib/chosen
local source = part == 'dead' and dead or expired
local redriven = {}
each_chosen(source, 5, limit, before, function(id, state, head, member)
  remember_expiry(id, state)
  state.part, state.reason, state.due = 'live', '', now
  state.charged, state.delay, state.redriven = 0, 0, state.redriven + 1
  remember(id, 'redriven', state.deliveries, 0, by, '')
  stand(id, state, head)
  redis.call('ZREM', source, member)
  redis.call('HINCRBY', counters, 'redriven', 1)
  outcome('redriven', id, head, state, 0, { consumer = by })
  redriven[#redriven + 1] = id
end)
if #redriven > 0 then
  wake_one()
end
return redriven
