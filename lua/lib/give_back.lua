-- Gives back a message that was not handled, or that must not be charged: due now, at its old position (I8).
-- consumer: the one that held it, for the outcome history.
-- needs: put, outcome; keys: counters
-- gives: give_back
local function give_back(id, state, head, consumer)
  state.released = state.released + 1
  put(id, state, head)
  redis.call('HINCRBY', counters, 'released', 1)
  outcome('released', id, head, state, 0, { consumer = consumer })
end
