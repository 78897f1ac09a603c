-- A. One lease for each claim.
local messages, states, leases, claims, counters = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
-- @include _ack_leases
