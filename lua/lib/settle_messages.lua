-- Settles held messages as lib/settle does, with act(id, state, head). Leaves alone a message whose ack was cut off, and
-- one that a later version has taken over, in a form of its own.
-- needs: settle, held_head, parse_state, GONE, LOST
-- gives: settle_messages
local function settle_messages(first, act, finish)
  return settle(first, function(id, text)
    local head, later = held_head(id, text)
    if not head then
      return later and LOST or GONE
    end
    return act(id, parse_state(text, head.birth), head)
  end, finish)
end
