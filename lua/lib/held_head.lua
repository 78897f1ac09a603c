-- The head of a held message, and whether it is of a later form, as in lib/head_of. If an ack or a discard was cut off,
-- nil, and the remains of the message are removed.
-- needs: head_of
-- gives: held_head
local function held_head(id, text)
  local head, later = head_of(id, text)
  if not head and not later then
    -- needs: drop
    drop({ id })
  end
  return head, later
end
