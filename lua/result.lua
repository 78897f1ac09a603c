-- Reads what became of messages whose results were asked for. Returns of each its end (lib/keep_results); or, where there is
-- none (any more), 1: it is in the queue, or 0.
-- items from ARGV[1]: id
-- needs: now, span, RESULTS_KEPT; keys: messages, results, settings
local since = now - (span(redis.call('HGET', settings, 'results')) or RESULTS_KEPT)
local ids, left = ARGV, {}
local ends = redis.call('HMGET', results, unpack(ids))
for n, id in ipairs(ids) do
  local at = ends[n] and tonumber(ends[n]:match('^%a+ (%d+) ') or nil)
  left[n] = at and at > since and ends[n] or redis.call('HEXISTS', messages, id)
end
return left
