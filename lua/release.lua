-- Gives messages back that nobody has handled, or that should not be charged: due now, at their old position (I8).
-- Returns a verdict for each.
-- drains
-- items from ARGV[1]: held (lib/settled)
-- needs: settle_messages, setting, holder, put, outcome, wake_one; keys: counters
return settle_messages(1, function(id, state, head)
  state.released = state.released + 1
  put(id, state, head)
  redis.call('HINCRBY', counters, 'released', 1)
  outcome('released', id, head, state, 0, { consumer = setting('outcomes') and holder(state.token) })
end, wake_one)
