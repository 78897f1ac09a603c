-- Whether the result of a message is asked for, by its sender or the settings. Statements, as in lib/chosen.
--   payload: as it was sent: its flags, then the length of a part whose fields are in the order of their numbers
-- needs: locals: payload, all_asked
-- gives: asks_result
local asks_result = all_asked
if not all_asked and payload:byte(1) % 0x40 >= 0x20 then -- the flag of such a part
  local at, stop = 4, 4 + (payload:byte(2) or 0) * 256 + (payload:byte(3) or 0)
  while at < stop do
    local field, high, length = payload:byte(at, at + 2)
    asks_result = field == 3 -- rq_dlq/values/record.py
    at = field < 3 and length and at + 3 + high * 256 + length or stop
  end
end
