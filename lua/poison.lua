-- Settles messages that can never succeed: straight to the dead-letter queue, whatever the budget. Returns for each
-- what became of it, or a verdict.
-- drains
local consumer = ARGV[1]
-- items from ARGV[2]: id, token, reason (poison or unprocessable), error
-- needs: settle_messages, remember, bury, put
return settle_messages(2, 4, function(id, state, head, i)
  remember(id, 'poisoned', state.deliveries, 0, consumer, ARGV[i + 3])
  if state.part == 'live' then
    local detail = { cause = 'poisoned', consumer = consumer, error = ARGV[i + 3] }
    return bury(id, state, head, 'dead', ARGV[i + 2], detail)
  end
  put(id, state, head) -- a dead-letter queue has no dead-letter queue: it stays where it is
  return 'kept'
end)
