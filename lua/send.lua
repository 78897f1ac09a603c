-- Adds messages to the queue. Returns how many it did not know; negative where they are the first that it ever had, so
-- that a client which opened the queue before it was deleted opens it again.
local number, delay, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]) -- milliseconds; ttl 0: none
-- items from ARGV[4]: id, payload (its first byte the flags, without the expiry's)
-- needs: done
if done then
  return done
end
-- needs: add, note_done
local added, first = add(ARGV, 4, #ARGV, delay, ttl)
return note_done(first and -added or added)
