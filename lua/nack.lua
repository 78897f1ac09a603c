-- Failed: redelivered by the policy, or after a delay of the caller's; dead when the budget is spent.
local messages, states, ready, scheduled, expiring = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local leases, claims, history, dead, expired = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local counters, wake, settings, outcomes = KEYS[11], KEYS[12], KEYS[13], KEYS[14]
local consumer, seed, default_policy = ARGV[1], ARGV[2], ARGV[3]
-- items from ARGV[4]: id, token, delay (milliseconds; empty: the policy's), charge (1 or 0), error
-- @include lib/now
-- @include lib/record
-- @include lib/state
-- @include lib/place
-- @include lib/stand
-- @include lib/bury
-- @include lib/settle
-- @include lib/held
-- @include lib/history
-- @include lib/delay
-- @include lib/judge
-- @include lib/wake
return settle(4, 5, function(id, text, i)
  local record = held_record(id)
  if not record then
    return GONE
  end
  local head = read_record(record)
  local failure =
    { delay = tonumber(ARGV[i + 2]), charge = ARGV[i + 3] == '1', consumer = consumer, error = ARGV[i + 4] }
  return judge(id, parse_state(text, head.birth), head, 'nacked', failure)
end, wake_one)
