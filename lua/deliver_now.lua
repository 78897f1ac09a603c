-- Makes scheduled messages ready now, at the positions of their births, so ahead of messages that were sent later (I8). A
-- message that waits for a seat of its lane is left as it is. Returns the reply of lib/changed.
local number, act = ARGV[1], ARGV[2] -- act: as in lib/note_act
-- items from ARGV[3]: id
-- needs: done
if done then
  -- needs: changed_before
  return changed_before()
end
-- needs: changed, each_chosen, now, put, leave, wake_one, BLOCKED; keys: scheduled
local delivered, next_score, next_member, leased = each_chosen(scheduled, 3, function(id, state, head, member, score)
  if score >= BLOCKED then
    return false
  end
  state.due = math.min(now, math.floor(head.birth / 4096))
  leave(id, scheduled, member, put(id, state, head))
end)
if delivered > 0 then
  wake_one()
end
return changed(delivered, next_score, next_member, leased)
