-- Keeps a dead letter or an expired message that failed where it is. It rests before a claim hands it out again
-- (lib/past_resting), so that it is not redelivered immediately each time.
-- needs: remember, remember_expiry, put, now, outcome, attempts
-- gives: keep
local SHORTEST = 1000 -- milliseconds

local function keep(id, state, head, delay, failure)
  state.delay = math.max(delay, SHORTEST)
  remember_expiry(id, state)
  remember(id, 'kept', attempts(state), state.delay, failure.consumer, failure.error)
  put(id, state, head, nil, now + state.delay)
  outcome('kept', id, head, state, state.delay, failure)
  return 'kept ' .. state.delay
end
