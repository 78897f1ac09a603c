-- Makes scheduled messages ready now, at the positions of their births, so ahead of messages that were sent later (I8). A
-- message that waits for a seat of its lane is left as it is. Returns the reply of lib/changed.
local number, act, plan = ARGV[1], ARGV[2], ARGV[3] -- act, plan: as in lib/note_act and lib/planned
-- items from ARGV[4]: id
-- needs: done
if done then
  -- needs: changed_before
  return changed_before()
end
-- needs: changed, each_chosen, planned, now, put, leave, wake_one, BLOCKED; keys: scheduled
local delivered, next_score, next_member, leased = each_chosen(scheduled, 4, planned(function(id, state, head, member, score)
  if score >= BLOCKED then
    return false
  end
  state.due = math.min(now, math.floor(head.birth / 4096))
  leave(id, scheduled, member, put(id, state, head))
end))
if delivered > 0 then
  wake_one()
end
return changed(delivered, next_score, next_member, leased)
