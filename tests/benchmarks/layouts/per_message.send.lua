-- B. One lease for each message: sent as in A.
local messages, ready, scheduled, expiring, counters = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
-- @include _send_places
