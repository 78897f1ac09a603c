-- The head of a message whose state is `text` (lib/head_in). A long record is not read: the state has its head
-- (lib/head_word), unless an earlier version sent the message. Returns nil if the message does not exist; nil and true if
-- it is of a later form.
-- needs: stated_head, is_later, as_head, read_record; keys: messages
-- gives: head_of
local function head_of(id, text)
  local birth, flags, expires, lane, needs = stated_head(text)
  if birth then
    if redis.call('HEXISTS', messages, id) == 0 then
      return nil, false
    elseif is_later('', text) then
      return nil, true
    end
    return as_head(birth, flags, expires > 0 and expires or nil, lane, needs), false
  end
  local record = redis.call('HGET', messages, id)
  if not record then
    return nil, false
  elseif is_later(record, text) then
    return nil, true
  end
  return read_record(record), false
end
