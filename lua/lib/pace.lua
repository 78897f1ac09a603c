-- How many messages a rate allows now: a bucket of tokens, one for each message, kept as the time until which the messages
-- so far use up the rate (GCRA). A burst is the messages of a second, at least one. A time further ahead than that counts
-- as now: the clock stepped back.
--   rate: as lib/interval_of reads it
--   reached: the time that is kept, or false
--   Returns nil, or { interval: milliseconds between two messages; from: the time from which the next ones use up the rate;
--   most: how many are allowed now; at: when one more is allowed, milliseconds }.
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
