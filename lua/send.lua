-- Adds messages to the queue. Returns the birth of the first new one, which the others follow one by one, 0: none is new; then
-- for each item whose id the queue knows its number, 1 is the first, and the place of that message (lib/with_places). -1 if
-- the queue was deleted since the client opened it: then nothing was done.
local number, delay, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]) -- milliseconds; ttl 0: none
local opening = ARGV[4]
-- items from ARGV[5]: id, payload (its first byte the flags, without the expiry's)
-- needs: done
if done then
  -- needs: known_before
  return known_before()
end
local items, first, last = ARGV, 5, #ARGV
-- needs: sent, packed, birth, known
if not sent then
  return -1
end
local first_birth = packed > 0 and birth - packed or 0
local note = #known > 0 and table.concat(known, ' ') .. ' ' .. #known / 2 or '0'
note = string.format('%.0f ', first_birth) .. note
-- needs: noted
table.insert(known, 1, first_birth)
return known
