-- The milliseconds between two messages by a rate: N/SPAN, such as 100/s or 5/10m; nil: it cannot be read: no limit.
-- gives: interval_of
local LONGEST = 2 ^ 42 -- milliseconds
local UNITS = { ms = 1, s = 1000, m = 60000, h = 3600000, d = 86400000 }

local function interval_of(rate)
  local count, spans, unit = rate:match('^(%d+)/(%d*)(%a+)$')
  count, spans = tonumber(count), tonumber(spans == '' and 1 or spans)
  if not count or count < 1 or not spans or spans < 1 or not UNITS[unit] then
    return nil
  end
  local interval = spans * UNITS[unit] / count
  return interval > 0 and interval <= LONGEST and interval or nil
end
