-- What a rate leaves to hand out now: a bucket of tokens, one for each message, kept as the time until which what was handed
-- out reaches (GCRA). A burst is what comes in a second, at least one message. A time further ahead than that counts as now:
-- the clock stepped back.
--   rate: N/SPAN, as 100/s or 5/10m; what cannot be read is no limit
--   reached: the time that is kept, or false
--   Returns nil, or { interval: milliseconds between two; from: where what is handed out now begins; most: how many;
--   at: when there is one more, milliseconds }.
-- needs: now
-- gives: pace
local UNITS = { ms = 1, s = 1000, m = 60000, h = 3600000, d = 86400000 }

local function pace(rate, reached)
  local count, spans, unit = rate:match('^(%d+)/(%d*)(%a+)$')
  count, spans = tonumber(count), tonumber(spans == '' and 1 or spans)
  if not count or count < 1 or not spans or spans < 1 or not UNITS[unit] then
    return nil
  end
  local interval = spans * UNITS[unit] / count
  local burst = math.max(1000, interval) -- milliseconds
  local from = tonumber(reached or nil)
  if not from or from < now or from > now + burst + interval then
    from = now
  end
  local most = math.floor((now + burst - from) / interval + 0.001) -- a time has no more digits
  return { interval = interval, from = from, most = most, at = math.ceil(from + (most + 1) * interval - burst) }
end
