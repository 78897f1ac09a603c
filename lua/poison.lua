-- Never again: straight to the dead-letter queue, whatever the budget.
local messages, states, ready, scheduled, expiring = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local leases, claims, history, dead, expired = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local counters, settings, outcomes = KEYS[11], KEYS[12], KEYS[13]
local consumer = ARGV[1]
-- items from ARGV[2]: id, token, reason (poison or unprocessable), error
-- @include lib/now
-- @include lib/record
-- @include lib/state
-- @include lib/place
-- @include lib/stand
-- @include lib/bury
-- @include lib/settle
-- @include lib/held
-- @include lib/history
return settle(2, 4, function(id, text, i)
  local record = held_record(id)
  if not record then
    return GONE
  end
  local head = read_record(record)
  local state = parse_state(text, head.birth)
  remember(id, 'poisoned', state.deliveries, 0, consumer, ARGV[i + 3])
  if state.part == 'live' then
    local told = { cause = 'poisoned', consumer = consumer, error = ARGV[i + 3] }
    return bury(id, state, head, 'dead', ARGV[i + 2], told)
  end
  stand(id, state, head) -- no dead-letter queue of a dead-letter queue: it stays where it is
  return 'kept'
end)
