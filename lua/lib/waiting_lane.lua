-- The lane of a message with this state that waits for its delivery; nil: it has no key, or does not wait.
-- needs: head_of
-- gives: waiting_lane
local function waiting_lane(id, text)
  if text and not text:find('^live/?%a* %-') then
    return nil
  end
  local head = head_of(id, text)
  return head and head.lane
end
