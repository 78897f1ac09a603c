-- Bytes. If a record is longer, the state of its message has the head of the record (lib/head_word).
-- gives: LONG
local LONG = 2048
