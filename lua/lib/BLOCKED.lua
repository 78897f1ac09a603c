-- The score in `scheduled` of a message that waits for a seat of its lane is this and the lane. As a time: the year 2248.
-- gives: BLOCKED
local BLOCKED = 2 ^ 43
