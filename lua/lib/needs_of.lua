-- The lane of the dependency of a message that is not of a later form, from its state if that has it (lib/head_word),
-- otherwise from its record; nil: none, or the message is gone. It defines little: acks need no more of the head
-- (lib/head_of).
-- needs: lanes_of; keys: messages
-- gives: needs_of
local function needs_of(id, text)
  if text:find(' head=', 1, true) then
    return tonumber(text:match(' needs=(%d+)') or nil)
  end
  local record = redis.call('HGET', messages, id)
  local _, needs = lanes_of(record or '')
  return needs
end
