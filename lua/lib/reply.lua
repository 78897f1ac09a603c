-- The reply of a claim: now, wait, then what it hands out.
-- needs: now
-- gives: reply
local reply = { now, -1 }
