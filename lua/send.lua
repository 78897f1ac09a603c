-- Adds messages to the queue. Returns how many it did not know; -1 where the queue was deleted since the client opened
-- it: then nothing was done.
local number, delay, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]) -- milliseconds; ttl 0: none
local opening = ARGV[4]
-- items from ARGV[5]: id, payload (its first byte the flags, without the expiry's)
-- needs: done, is_open
if done then
  return done
elseif not is_open then
  return -1
end
-- needs: add, note_done
return note_done(add(ARGV, 5, #ARGV, delay, ttl))
