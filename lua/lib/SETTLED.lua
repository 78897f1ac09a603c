-- The verdicts on a message that a caller settles.
-- gives: SETTLED, SETTLED_BEFORE, LOST, GONE
local SETTLED, SETTLED_BEFORE, LOST, GONE = 1, 2, 0, -1
