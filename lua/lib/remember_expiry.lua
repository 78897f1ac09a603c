-- Writes into the story of a message that it expired, which until now only its state says; called when the message
-- leaves that state, or fails in it. Only once.
-- needs: remember; keys: history
-- gives: remember_expiry
local function remember_expiry(id, state)
  if state.reason ~= 'expired' then
    return
  end
  local known = redis.call('HGET', history, id) or ''
  if not known:find('expired\t' .. state.due .. '\t') then
    remember(id, 'expired', state.deliveries, 0, '', '', state.due)
  end
end
