-- Expires waiting messages, whatever their time to live, for an operator. Returns the reply of lib/changed.
local number, place, act = ARGV[1], ARGV[2], ARGV[3] -- place: ready or scheduled; act: as in lib/note_act
-- items from ARGV[4]: id
-- needs: done
if done then
  -- needs: changed_before
  return changed_before()
end
-- needs: changed, each_chosen, expire_message; keys: ready, scheduled
local is_ready = place == 'ready'
return changed(each_chosen(is_ready and ready or scheduled, 4, expire_message, nil, not is_ready and ready or nil))
