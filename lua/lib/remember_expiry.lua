-- That a message expired is said by its state; once it leaves that state, its story has to tell it.
local function remember_expiry(id, state)
  if state.reason == 'expired' then
    remember(id, 'expired', state.deliveries, 0, '', '', state.due)
  end
end
