-- Bytes of a result in Redis, in addition to its text and twice its id.
-- gives: RESULT_EXTRA
local RESULT_EXTRA = 200
