-- Bytes. The state of a message whose record is longer has its head (lib/head_word).
-- gives: LONG
local LONG = 2048
