-- Moves or copies waiting messages to another queue of the same hash tag (lib/hand_over). Returns the reply of lib/changed;
-- it changes nothing if the other queue was deleted since the client opened it.
local number, place, keep, by, reason, opening = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local act, plan = ARGV[7], ARGV[8] -- as in lib/note_act and lib/planned; keep: 1 to copy; reason: cells of a cause
-- items from ARGV[9]: id
-- needs: done
if done then
  -- needs: changed_before
  return changed_before()
end
-- needs: changed, each_chosen, planned, hand_over, wake_there, is_there; keys: ready, scheduled, dead, expired
if not is_there then
  return { 0, '', '', 0 }
end
local index = ({ ready = ready, scheduled = scheduled, dead = dead, expired = expired })[place]
local how = { copies = keep == '1' }
local moved, next_score, next_member, leased = each_chosen(index, 9, planned(function(id, state, head, member, _, at)
  return hand_over(id, state, head, at, member, by, reason, how)
end), nil, place == 'scheduled' and ready or nil)
if moved > 0 then
  wake_there()
end
return changed(moved, next_score, next_member, leased)
