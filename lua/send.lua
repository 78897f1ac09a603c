-- Adds messages to the queue. Returns how many it did not know.
local number, delay, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]) -- milliseconds; ttl 0: none
-- items from ARGV[4]: id, payload (its first byte the flags, without the expiry's)
-- needs: done
if done then
  return done
end
-- needs: add, note_done
return note_done(add(ARGV, 4, #ARGV, delay, ttl))
