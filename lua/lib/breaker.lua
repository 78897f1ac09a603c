-- When the dependency of a queue counts as down, by its settings; milliseconds. A damaged setting never opens the breaker.
--   breaker: distinct=N within=Nms share=N probe=Nms longest_probe=Nms
--   breaker.distinct: this many different messages failed within breaker.within, and at least this share of all attempts:
--   breaker.share;
--   breaker.probe: until the first probe; breaker.longest: the longest time between two probes
-- needs: setting
-- gives: breaker
local said = setting('breaker') or ''
local breaker = {
  distinct = tonumber(said:match('^distinct=(%d+) ') or nil) or math.huge,
  within = tonumber(said:match(' within=(%d+)ms') or nil) or 0,
  share = tonumber(said:match(' share=([%d.]+)') or nil) or 1,
  probe = tonumber(said:match(' probe=(%d+)ms') or nil) or 1000,
  longest = tonumber(said:match(' longest_probe=(%d+)ms') or nil) or 30000,
}
