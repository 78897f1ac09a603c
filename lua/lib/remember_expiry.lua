-- Writes into the history of a message that it expired, which until now only its state says; called when the message leaves
-- that state, or fails in it. Only once (lib/remember).
-- needs: remember, attempts
-- gives: remember_expiry
local function remember_expiry(id, state)
  if state.reason == 'expired' then
    remember(id, 'expired', attempts(state), 0, '', '', state.due)
  end
end
