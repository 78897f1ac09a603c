-- The score in `scheduled` of a message that waits for a seat of its lane is this and the lane. The year 2248.
-- gives: BLOCKED
local BLOCKED = 2 ^ 43
