-- Done: the messages are gone.
local messages, states, history = KEYS[1], KEYS[2], KEYS[3]
local leases, claims, counters, settings, outcomes = KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
-- items from ARGV[1]: id, token
-- @include lib/settle
-- @include lib/remove_acked
local acked = {}
return settle(1, 2, function(id)
  acked[#acked + 1] = id
end, function()
  remove_acked(acked)
end)
