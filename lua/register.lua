-- The register of a sender holds the number of its last call that was done here, the rest of that call's reply, and how
-- many messages it changed. A sender makes one call at a time, so a number that is not higher is the same call again, or an
-- older one that arrives late (I12).
Register.KEPT = '3600000' -- milliseconds: far longer than any call is repeated
Register.ITEMS = 6 -- where the items of a send begin in its arguments (Verbs.send): an id and a payload each
local STAYS = '315360000000' -- ten years, by PSETEX, too: another command would be another right of all who send

-- Whether this call was done before: then the count that was noted with it, otherwise false; and the note, if there is one.
function Register.done_before(q, number)
  local noted = redis.call('GET', q.sender)
  local done = noted and tonumber(number) <= tonumber(noted:match('^%d+') or 0) and tonumber(noted:match('%d*$'))
  return done, noted
end

-- Notes that the call is done, and how many messages it changed, which it returns. The last write of a verb: if it is cut
-- off before, a repetition does the rest.
--   more: the rest of the call's reply, and a blank; nil: nothing. stays: the note does so for ten years
function Register.note_done(q, number, count, more, stays)
  redis.call('PSETEX', q.sender, stays and STAYS or Register.KEPT, number .. ' ' .. (more or '') .. count)
  return count
end

-- The items that a call found known, as noted with it when it was done before: numbers, and names of places.
function Register.known_before(noted)
  local known = {}
  for word in (noted:match(' (.*) ') or ''):gmatch('%S+') do
    known[#known + 1] = tonumber(word) or word
  end
  return known
end

-- Whether this call has begun before, of those that note that (Register.begin).
function Register.has_begun(number, noted)
  local begun = number - 1 .. ' begun ' -- as a note of the call before it, so this one does not count as done
  return noted and noted:sub(1, #begun) == begun
end

-- Notes that this call begins.
function Register.begin(q, number)
  redis.call('PSETEX', q.sender, Register.KEPT, number - 1 .. ' begun 0')
end

-- Notes that a call is done but for so many of its items, as a note of the call before it: so this one is not done.
function Register.note_part(q, number, left)
  redis.call('PSETEX', q.sender, STAYS, Values.digits(number - 1) .. ' part ' .. left .. ' 0')
end

-- Where the items of a send begin that are left of one that was done in part.
--   ARGV: the number of the call, and the rest of a send's
function Register.first_left(ARGV, noted)
  local before, left = (noted or ''):match('^(%d+) part (%d+) ')
  local is_part = before and tonumber(before) == ARGV[1] - 1
  return is_part and math.max(Register.ITEMS, #ARGV + 1 - 2 * left) or Register.ITEMS
end

-- A reply with the numbers that known items have in the whole call.
function Register.numbered(reply, first)
  for at = 2, #reply, 2 do
    reply[at] = reply[at] + (first - Register.ITEMS) / 2
  end
  return reply
end
