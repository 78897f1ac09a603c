-- Precedes, in `seats`, the id of a message that was let through the gate of its dependency; no id has this byte.
-- gives: PASS
local PASS = '\1'
