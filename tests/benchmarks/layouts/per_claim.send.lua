-- A. One lease for each claim: hashes of records and states, sorted sets of the ready and the scheduled.
local messages, ready, scheduled, expiring, counters = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
-- @include _send_places
