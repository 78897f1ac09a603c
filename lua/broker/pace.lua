-- How many messages a rate allows now: a bucket of tokens, one for each message, kept as the time until which the messages
-- so far use up the rate (GCRA). A burst is the messages of a second, at least one. A time further ahead than that counts
-- as now: the clock stepped back.
--   rate: as Values.interval_of reads it
--   reached: the time that is kept, or false Returns nil, or { interval: milliseconds between two messages; from: the time
--   from which the next ones use up the rate;
--   most: how many are allowed now; at: when one more is allowed, milliseconds }.
function Pace.pace(q, rate, reached)
  local interval = Values.interval_of(rate)
  if not interval then
    return nil
  end
  local burst = math.max(1000, interval) -- milliseconds
  local from = tonumber(reached or nil)
  if not from or from < q.now or from > q.now + burst + interval then
    from = q.now
  end
  local most = math.floor((q.now + burst - from) / interval + 0.001) -- a time has no more digits
  return { interval = interval, from = from, most = most, at = math.ceil(from + (most + 1) * interval - burst) }
end

-- Records messages that were handed out by a queue's rate (Pace.pace).
function Pace.spend(q, by_rate, count)
  redis.call('HSET', q.counters, 'rate_until', string.format('%.17g', by_rate.from + count * by_rate.interval))
end

-- Gives the tokens of messages back that were handed out, and do not count.
function Pace.give_back(q, count)
  local by_rate = Pace.pace(q, q.set.rate, redis.call('HGET', q.counters, 'rate_until'))
  if by_rate then
    Pace.spend(q, by_rate, -count)
  end
end
