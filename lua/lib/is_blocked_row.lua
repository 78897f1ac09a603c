-- Whether a row of a lane belongs to a message that waits there. One of a later form does: only its version can tell more.
-- A state that says dead does not tell, since a purge that was cut off may have left it; the row of the dead letter does.
--   text, record: its state and its record, as they were read
-- needs: is_later, head_in, parse_state, member_of, left_over; keys: scheduled
-- gives: is_blocked_row
local function is_blocked_row(row, id, text, record)
  if not record then
    return false
  elseif not text and row:sub(2, 8) == record:sub(1, 7) and row:byte(1) == 9 - record:byte(8) % 16 then
    return true -- as for most: no script has touched it
  elseif is_later(record, text) then
    return true
  end
  local head = head_in(record, text)
  local state = parse_state(text, head.birth)
  return state.mark == '-' and member_of(id, head, state.due) == row and not left_over(scheduled, row, id, state, head)
end
