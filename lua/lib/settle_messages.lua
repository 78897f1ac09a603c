-- Settles items as lib/settle does, with act(id, state, head, i). Left alone are a message whose ack was cut off, and
-- one that a later version has taken over, in a form of its own.
-- needs: settle, held_head, parse_state, GONE, LOST
-- gives: settle_messages
local function settle_messages(first, width, act, finish)
  return settle(first, width, function(id, text, i)
    local head, later = held_head(id, text)
    if not head then
      return later and LOST or GONE
    end
    return act(id, parse_state(text, head.birth), head, i)
  end, finish)
end
