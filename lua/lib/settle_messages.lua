-- Settles items as lib/settle does, with act(id, state, head, i). Left alone are a message whose ack was cut off, and
-- one that a later version has taken over, in a form of its own.
-- needs: settle, held_record, is_later, read_record, parse_state, GONE, LOST
-- gives: settle_messages
local function settle_messages(first, width, act, finish)
  return settle(first, width, function(id, text, i)
    local record = held_record(id)
    if not record or is_later(record, text) then
      return record and LOST or GONE
    end
    local head = read_record(record)
    return act(id, parse_state(text, head.birth), head, i)
  end, finish)
end
