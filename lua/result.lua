-- Reads the outcomes of messages whose results were asked for. Returns each outcome (lib/kept); or, if there is none (any
-- more), 1: the message is in the queue; 0: it is not, or its result was not asked for.
-- items from ARGV[1]: id
-- needs: now, span, RESULTS_KEPT; keys: states, results, settings
local since = now - (span(redis.call('HGET', settings, 'results')) or RESULTS_KEPT)
local ids, left = ARGV, {}
local ends, texts = redis.call('HMGET', results, unpack(ids)), redis.call('HMGET', states, unpack(ids))
for n = 1, #ids do
  local at = ends[n] and tonumber(ends[n]:match('^%a+ (%d+) ') or nil)
  left[n] = at and at > since and ends[n] or (texts[n] or ''):find(' result=', 1, true) and 1 or 0
end
return left
