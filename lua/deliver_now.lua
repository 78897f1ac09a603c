-- Makes scheduled messages ready at once. They stand where they were born, so ahead of what came later (I8). One that waits
-- for a seat of its lane is left as it is. Returns how many.
local number, act = ARGV[1], ARGV[2] -- act: as in lib/note_act
-- items from ARGV[3]: id
-- needs: done
if done then
  return done
end
-- needs: note_done, note_act, each_chosen, now, put, leave, wake_one, BLOCKED; keys: scheduled
local delivered = each_chosen(scheduled, 3, function(id, state, head, member, score)
  if score >= BLOCKED then
    return false
  end
  state.due = math.min(now, math.floor(head.birth / 4096))
  leave(id, scheduled, member, put(id, state, head))
end)
if delivered > 0 then
  wake_one()
end
note_act(act, delivered)
return note_done(delivered)
