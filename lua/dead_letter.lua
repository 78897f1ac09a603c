-- Moves waiting messages to the dead-letter queue, for an operator. Returns the reply of lib/changed.
local number, place, by, reason, act = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
-- place: ready, scheduled or expired; reason: cells of a cause; act: as in lib/note_act
-- items from ARGV[6]: id
-- needs: done
if done then
  -- needs: changed_before
  return changed_before()
end
-- needs: changed, each_chosen, remember_expiry, remember, bury, leave, attempts; keys: ready, scheduled, expired
local index = ({ ready = ready, scheduled = scheduled, expired = expired })[place]
return changed(each_chosen(index, 6, function(id, state, head, member, _, at)
  remember_expiry(id, state)
  remember(id, 'dead_lettered', attempts(state), 0, by, reason)
  bury(id, state, head, 'dead', 'poison', { cause = 'dead_lettered', consumer = by, error = reason })
  leave(id, at, member)
end, nil, place == 'scheduled' and ready or nil))
