-- Adds messages to the queue. Returns, for each item whose id the queue already has, its number, 1 is the first, and the
-- place of that message (lib/with_places); -1 if the queue was deleted since the client opened it: then nothing was done.
local number, delay, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]) -- milliseconds; ttl 0: none
local opening = ARGV[4]
-- items from ARGV[5]: id, payload (its first byte the flags, without the expiry's)
-- needs: done
if done then
  -- needs: known_before
  return known_before()
end
local items, first, last = ARGV, 5, #ARGV
-- needs: sent, known
if not sent then
  return -1
end
local note = #known > 0 and table.concat(known, ' ') .. ' ' .. #known / 2 or '0'
-- needs: noted
return known
