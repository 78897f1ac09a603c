-- Gives messages back that nobody has handled, or that should not be charged: due now, at their old position (I8).
-- Returns a verdict for each.
-- drains
local begun = ARGV[1] == '1' -- 0: the holder had not begun them, so these were no attempts (lib/attempts)
-- items from ARGV[2]: held (lib/settled)
-- needs: settle_messages, setting, holder, put, outcome, wake_one, count_untried, taken_up; keys: counters
return settle_messages(2, function(id, state, head)
  state.released = state.released + 1
  if begun then
    taken_up(state)
  else
    count_untried(state)
  end
  put(id, state, head)
  redis.call('HINCRBY', counters, 'released', 1)
  outcome('released', id, head, state, 0, { consumer = setting('outcomes') and holder(state.token) })
end, wake_one)
