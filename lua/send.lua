-- Adds messages to the queue. Returns which items it knew already: 1 is the first.
local number, delay, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]) -- milliseconds; ttl 0: none
-- items from ARGV[4]: id, payload (its first byte the flags, without the expiry's)
-- needs: register, done
local known = {}
if done then
  for n in (register:match(' (.*) ') or ''):gmatch('%d+') do
    known[#known + 1] = tonumber(n)
  end
  return known
end
-- needs: add, note_done
known = add(ARGV, 4, #ARGV, delay, ttl)
note_done(#known, table.concat(known, ' ') .. ' ')
return known
