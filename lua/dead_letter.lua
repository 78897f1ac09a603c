-- Moves waiting messages to the dead-letter queue, for an operator. Returns the reply of lib/changed.
local number, place, by, reason, act, plan = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
-- place: ready, scheduled or expired; reason: cells of a cause; act, plan: as in lib/note_act and lib/planned
-- items from ARGV[7]: id
-- needs: done
if done then
  -- needs: changed_before
  return changed_before()
end
-- needs: changed, each_chosen, planned, remember_expiry, remember, bury, leave, attempts; keys: ready, scheduled, expired
local index = ({ ready = ready, scheduled = scheduled, expired = expired })[place]
return changed(each_chosen(index, 7, planned(function(id, state, head, member, _, at)
  remember_expiry(id, state)
  remember(id, 'dead_lettered', attempts(state), 0, by, reason)
  bury(id, state, head, 'dead', 'poison', { cause = 'dead_lettered', consumer = by, error = reason })
  leave(id, at, member)
end), nil, place == 'scheduled' and ready or nil))
