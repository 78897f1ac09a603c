-- An operator expires waiting messages, whatever their time to live. Returns how many.
local number, place = ARGV[1], ARGV[2] -- ready or scheduled
-- items from ARGV[3]: id
-- needs: done
if done then
  return done
end
-- needs: note_done, each_chosen, expire_message; keys: ready, scheduled
local expired_now = each_chosen(place == 'ready' and ready or scheduled, 3, expire_message)
return note_done(expired_now)
