-- Keeps the outcomes of messages (lib/kept), for scripts that rarely do so: each outcome, or false to forget it.
-- needs: keys: settings
-- gives: keep_results
local function keep_results(ended, ends, births)
  local values = redis.call('HMGET', settings, 'results', 'results_bytes')
  local kept_for, most_bytes = values[1], values[2]
  -- needs: kept
  return kept
end
