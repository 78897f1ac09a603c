-- Settles messages that can never succeed: straight to the dead-letter queue, whatever the budget. A dead letter is kept
-- there, as after a nack. Returns for each what became of it, or a verdict.
-- drains
local consumer, seed, default_policy = ARGV[1], ARGV[2], ARGV[3]
-- items from ARGV[4]: id, token, reason (poison or unprocessable), error
-- needs: settle_messages, remember, bury, put
local judged
return settle_messages(4, 4, function(id, state, head, i)
  local failure = { charge = true, cause = 'poisoned', consumer = consumer, error = ARGV[i + 3] }
  if state.part == 'live' then
    remember(id, 'poisoned', state.deliveries, 0, consumer, failure.error)
    return bury(id, state, head, 'dead', ARGV[i + 2], failure)
  end
  judged = judged or (function()
    -- needs: can_judge, judge
    return can_judge() and judge or function() -- under a policy of a later version
      put(id, state, head)
      return 'kept'
    end
  end)()
  return judged(id, state, head, 'poisoned', failure)
end)
