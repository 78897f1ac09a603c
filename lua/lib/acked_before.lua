-- Whether a send that is not in the queue was acked, as its outcome (lib/kept) or the dedup_window remembers: its birth, 0:
-- unknown; nil: nothing does. meant: as in lib/own_end; here: the birth of another message with this id
-- needs: now, span, RESULTS_KEPT, BORN, own_end, recall_acked; keys: results, settings
-- gives: acked_before
local function acked_before(id, meant, here)
  local values, kept = redis.call('HMGET', settings, 'dedup_window', 'results'), redis.call('HMGET', results, id, id .. BORN)
  local since, known = now - (span(values[2]) or RESULTS_KEPT), {}
  local ended, birth = own_end(kept[1], kept[2], since, meant, here, true)
  if ended and ended:find('^acked ') then
    return birth
  end
  recall_acked({ id }, known, values[1])
  return known[1] and meant or nil
end
