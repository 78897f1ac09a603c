-- The lane of a message with this state that is not leased, and whether the row is its own; otherwise a script that was cut
-- off left it behind. nil: it has no key, or is leased. A state that says dead may be left by a purge that was cut off.
-- needs: head_of, parse_state, member_of
-- gives: waiting_lane
local function waiting_lane(id, row, text)
  if text and not text:find('^%a+/?%a* %-') then
    return nil
  end
  local head = head_of(id, text)
  if not (head and head.lane) then
    return nil
  end
  return head.lane, member_of(id, head, parse_state(text, head.birth).due) == row
end
