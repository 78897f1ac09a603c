-- A message goes back unseen, or unfairly held: not charged, due now, at its old place (I8).
-- consumer: who held it, for the outcome history
local function give_back(id, state, head, consumer)
  state.released = state.released + 1
  stand(id, state, head)
  redis.call('HINCRBY', counters, 'released', 1)
  outcome('released', id, head, state, 0, { consumer = consumer })
end
