-- The lapsed leases: what they still held comes back by the policy, charged. Returns how many
-- messages were looked at: some may have been settled before.
local messages, states, ready, scheduled, expiring = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local leases, claims, history, dead, expired = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local counters, wake, settings, outcomes = KEYS[11], KEYS[12], KEYS[13], KEYS[14]
local limit, seed, default_policy, lapse_error = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
-- @include lib/now
-- @include lib/record
-- @include lib/state
-- @include lib/place
-- @include lib/stand
-- @include lib/bury
-- @include lib/history
-- @include lib/delay
-- @include lib/judge
-- @include lib/lapse
-- @include lib/wake
local looked = sweep(limit)
if looked > 0 then
  wake_one()
end
return looked
