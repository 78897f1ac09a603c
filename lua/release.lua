-- Gives messages back that nobody has handled, or that should not be charged: due now, at their old position (I8).
-- Returns a verdict for each.
-- drains
-- items from ARGV[1]: id, token
-- needs: settle_messages, give_back, setting, holder, wake_one
return settle_messages(1, 2, function(id, state, head)
  give_back(id, state, head, setting('outcomes') and holder(state.token))
end, wake_one)
