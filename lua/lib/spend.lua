-- Records messages that were handed out by a queue's rate (lib/pace), or gives tokens back: a number below 0.
-- needs: keys: counters
-- gives: spend
local function spend(by_rate, count)
  redis.call('HSET', counters, 'rate_until', string.format('%.17g', by_rate.from + count * by_rate.interval))
end
