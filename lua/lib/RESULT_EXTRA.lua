-- Bytes of a result in Redis, beside its text and twice its id.
-- gives: RESULT_EXTRA
local RESULT_EXTRA = 200
