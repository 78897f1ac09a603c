-- The reply of a claim: now, wait, then the messages that it hands out.
-- needs: now
-- gives: reply
local reply = { now, -1 }
