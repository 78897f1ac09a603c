-- An operator expires waiting messages, whatever their time to live. Returns how many.
local number, place, act = ARGV[1], ARGV[2], ARGV[3] -- place: ready or scheduled; act: as in lib/note_act
-- items from ARGV[4]: id
-- needs: done
if done then
  return done
end
-- needs: note_done, note_act, each_chosen, expire_message; keys: ready, scheduled
local expired_now = each_chosen(place == 'ready' and ready or scheduled, 4, expire_message)
note_act(act, expired_now)
return note_done(expired_now)
