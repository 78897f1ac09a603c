-- Marks as known those of the ids whose ack is still kept as an outcome (lib/kept): `existing` gets the birth of that send, 0:
-- unknown. Returns n → true for those whose kept outcome is another one: such an id is free.
-- needs: now, span, RESULTS_KEPT, BORN; keys: results, result_times
-- gives: recall_results
local function recall_results(ids, existing, kept_for)
  local since, names, ended = now - (span(kept_for) or RESULTS_KEPT), {}, {}
  for n, id in ipairs(ids) do
    names[n] = id .. BORN
  end
  for n, born in ipairs(redis.call('HMGET', results, unpack(names))) do
    local word, at, birth = (not existing[n] and born or ''):match('^(%a+) (%d+) (%d+)$')
    -- If the times differ, version 0.1.0 has dropped or replaced the outcome.
    if word and tonumber(at) > since and tonumber(redis.call('ZSCORE', result_times, ids[n]) or nil) == tonumber(at) then
      existing[n] = word == 'acked' and tonumber(birth)
      ended[n] = not existing[n]
    end
  end
  return ended
end
