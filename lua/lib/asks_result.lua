-- Whether the result of a message is asked for, by its sender or the settings, or since its outcome has to replace that of an
-- earlier message (lib/asked). Statements, as in lib/chosen.
--   payload: as it was sent: its flags, then the length of a part whose fields are in the order of their numbers
-- needs: locals: payload, n, all_asked, ended
-- gives: asks_result
local asks_result = all_asked or ended and ended[n]
if not asks_result and payload:byte(1) % 0x40 >= 0x20 then -- the flag of such a part
  local at, stop = 4, 4 + (payload:byte(2) or 0) * 256 + (payload:byte(3) or 0)
  while at < stop do
    local field, high, length = payload:byte(at, at + 2)
    asks_result = field == 3 -- rq_dlq/values/record.py
    at = field < 3 and length and at + 3 + high * 256 + length or stop
  end
end
