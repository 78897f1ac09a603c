-- Expires waiting messages, whatever their time to live, for an operator. Returns the reply of lib/changed.
local number, place, act, plan = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
-- place: ready or scheduled; act, plan: as in lib/note_act and lib/planned
-- items from ARGV[5]: id
-- needs: done
if done then
  -- needs: changed_before
  return changed_before()
end
-- needs: changed, each_chosen, planned, expire_message; keys: ready, scheduled
local is_ready = place == 'ready'
local index, otherwise = is_ready and ready or scheduled, not is_ready and ready or nil
return changed(each_chosen(index, 5, planned(expire_message), nil, otherwise))
