-- Given back unseen or unfairly: not charged, due now, at its old place (I8).
local messages, states, ready, scheduled, expiring = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local leases, claims, history, dead, expired = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local counters, wake, settings, outcomes = KEYS[11], KEYS[12], KEYS[13], KEYS[14]
-- items from ARGV[1]: id, token
-- @include lib/now
-- @include lib/record
-- @include lib/state
-- @include lib/place
-- @include lib/stand
-- @include lib/settle
-- @include lib/held
-- @include lib/outcome
-- @include lib/holder
-- @include lib/give_back
-- @include lib/wake
return settle(1, 2, function(id, text)
  local record = held_record(id)
  if not record then
    return GONE
  end
  local head = read_record(record)
  local state = parse_state(text, head.birth)
  give_back(id, state, head, setting('outcomes') and holder(state.token))
end, wake_one)
