-- Stands before the id of a message in `seats` that was let through the gate of its dependency; ids have no such byte.
-- gives: PASS
local PASS = '\1'
