-- The rows of `source` that a worker's claim may take, at most `most`, with their ids and states. A suspect, a message that
-- lapsed before, is taken alone, if it is first and the claim may take it; otherwise the claim skips suspects, within 1,000
-- more rows (I9). Only states are read, since records may be large. A spent message is not a suspect: it is not handed out,
-- but buried (I6).
-- needs: lapsed_before, is_spent, id_of; keys: states; args: suspects
-- gives: past_suspects
local PAST, PAGE = 1000, 100

local function past_suspects(source, most)
  local found, named, stated = {}, {}, {}
  for first = 0, most + PAST, PAGE do
    local rows, ids = redis.call('ZRANGE', source, first, math.min(first + PAGE, most + PAST) - 1), {}
    for n, row in ipairs(rows) do
      ids[n] = id_of(row)
    end
    for n, text in ipairs(#ids > 0 and redis.call('HMGET', states, unpack(ids)) or {}) do
      local charged = text and tonumber(text:match(lapsed_before))
      local suspect = charged and not is_spent(charged)
      local alone = suspect and suspects == 'alone'
      if not suspect or alone and #found == 0 then
        found[#found + 1], named[#named + 1], stated[#stated + 1] = rows[n], ids[n], text
      end
      if alone or #found == most then
        return found, named, stated
      end
    end
    if #rows < PAGE then
      break
    end
  end
  return found, named, stated
end
