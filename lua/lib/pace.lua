-- What a rate leaves to hand out now: a bucket of tokens, one for each message, kept as the time until which what was handed
-- out reaches (GCRA). A burst is what comes in a second, at least one message. A time further ahead than that counts as now:
-- the clock stepped back.
--   rate: as lib/interval_of reads it
--   reached: the time that is kept, or false
--   Returns nil, or { interval: milliseconds between two; from: where what is handed out now begins; most: how many;
--   at: when there is one more, milliseconds }.
-- needs: now, interval_of
-- gives: pace
local function pace(rate, reached)
  local interval = interval_of(rate)
  if not interval then
    return nil
  end
  local burst = math.max(1000, interval) -- milliseconds
  local from = tonumber(reached or nil)
  if not from or from < now or from > now + burst + interval then
    from = now
  end
  local most = math.floor((now + burst - from) / interval + 0.001) -- a time has no more digits
  return { interval = interval, from = from, most = most, at = math.ceil(from + (most + 1) * interval - burst) }
end
