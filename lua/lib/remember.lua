-- Adds a line to the story of a message: a line an event, tab-separated. A cell is a number, a word or JSON, so it
-- holds no raw tab or newline. The first 15 lines and the last 15 stay; only the newest keeps its traceback (I6,
-- I13).
--   event  at  delivery  delay  consumer  error  traceback
-- at: now, unless the caller gives another time.
-- needs: now; keys: history
-- gives: remember
local KEEP = 15

local function remember(id, event, delivery, delay, consumer, failure, at)
  local line = table.concat({ event, at or now, delivery, delay, consumer, failure }, '\t')
  local text = redis.call('HGET', history, id)
  if text then
    local lines = {}
    for old in text:gmatch('[^\n]+') do
      lines[#lines + 1] = old
    end
    if #lines > 0 then
      lines[#lines] = lines[#lines]:gsub('\t[^\t]*$', '\t')
    end
    if #lines >= 2 * KEEP then
      table.remove(lines, KEEP + 1)
    end
    lines[#lines + 1] = line
    line = table.concat(lines, '\n')
  end
  redis.call('HSET', history, id, line)
end
