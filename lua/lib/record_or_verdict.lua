-- The record of a message that is to be settled; or nil and a verdict, where an ack was cut off, or a later version has
-- taken the message over, in a form of its own.
-- needs: held_record, is_later, GONE, LOST
-- gives: record_or_verdict
local function record_or_verdict(id, text)
  local record = held_record(id)
  if not record then
    return nil, GONE
  elseif is_later(record, text) then
    return nil, LOST
  end
  return record
end
