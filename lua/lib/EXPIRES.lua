-- The flag of a record (lib/record) that has an expiry.
-- gives: EXPIRES
local EXPIRES = 0x10
