-- The first rows of a dead-letter or expiry queue whose messages do not rest (lib/keep), at most `most`, with their ids and
-- states. It skips 1,000 resting ones and, if that finds none, as many from a random position, so that resting messages,
-- however many (I9), do not block the others. If it finds none, the reply says when the first rest ends.
-- needs: id_of, now; keys: states; args: seed
-- gives: past_resting
local PAST, PAGE = 1000, 100

local function past_resting(source, most, reply)
  local found, named, stated, wakes = {}, {}, {}, nil

  local function look(from, upto)
    for first = from, upto, PAGE do
      local rows, ids = redis.call('ZRANGE', source, first, math.min(first + PAGE, upto) - 1), {}
      for n, row in ipairs(rows) do
        ids[n] = id_of(row)
      end
      for n, text in ipairs(#ids > 0 and redis.call('HMGET', states, unpack(ids)) or {}) do
        local ends = tonumber(text and text:match(' rest=(%d+)') or 0)
        if ends > now then
          wakes = math.min(wakes or ends, ends)
        else
          found[#found + 1], named[#named + 1], stated[#stated + 1] = rows[n], ids[n], text
        end
        if #found == most then
          return
        end
      end
      if #rows < PAGE then
        break
      end
    end
  end

  look(0, most + PAST)
  local size = redis.call('ZCARD', source)
  if #found == 0 and size > most + PAST then
    local from = math.floor(tonumber(seed) * size)
    look(from, from + PAST)
  end
  reply[2] = #found == 0 and wakes and wakes - now or reply[2]
  return found, named, stated
end
