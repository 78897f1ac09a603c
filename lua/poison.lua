-- Settles messages that can never succeed: they die immediately, whatever the budget. A dead letter is kept there, as after
-- a nack. Returns the outcome of each, or a verdict.
-- drains
local consumer, seed, default_policy = ARGV[1], ARGV[2], ARGV[3]
local reason, error = ARGV[4], ARGV[5] -- reason: poison or unprocessable
-- items from ARGV[6]: held (lib/settled)
-- needs: settle_messages, remember, bury, put, attempts
local judged
return settle_messages(6, function(id, state, head)
  local failure = { charge = true, cause = 'poisoned', consumer = consumer, error = error }
  if state.part == 'live' then
    remember(id, 'poisoned', attempts(state), 0, consumer, error)
    return bury(id, state, head, 'dead', reason, failure)
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
