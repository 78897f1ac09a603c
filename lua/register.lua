-- The register of a sender holds the number of its last call that was done here, the rest of that call's reply, and how
-- many messages it changed. A sender makes one call at a time, so a number that is not higher is the same call again, or an
-- older one that arrives late (I12).
Register.KEPT = '3600000' -- milliseconds: far longer than any call is repeated
local STAYS = '315360000000' -- ten years, by PSETEX, too: another command would be another right of all who send

-- Whether this call was done before: then the count that was noted with it, otherwise false; and the note, if there is one.
function Register.done_before(q, number)
  local noted = redis.call('GET', q.sender)
  local done = noted and tonumber(number) <= tonumber(noted:match('^%d+') or 0) and tonumber(noted:match('%d*$'))
  return done, noted
end

-- Notes that the call is done, and how many messages it changed. Returns that count. The last write of a verb: if it is cut
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
