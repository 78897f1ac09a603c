-- Follows an id in `results` and `result_times`: the birth of the send whose outcome is kept under the id (lib/kept). No id has
-- this byte, and the row of a birth comes right after that of its outcome.
-- gives: BORN
local BORN = '\1'
