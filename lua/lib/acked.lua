-- Removes messages that were acked, and counts them. Statements, as in lib/chosen.
--   ids, texts: the messages, and their states before the ack
--   given: id → its result (lib/kept)
--   back: the dependency whose breaker this closed; nil: none
-- needs: keys: counters, settings, strikes, lanes, runs; locals: ids, texts, given
-- gives: acked, back
local WORDLESS = 75 -- bytes; a state with the field of a redrive (lib/bring_back) is longer, most others are not
local values = redis.call(
  'HMGET', settings, 'outcomes', 'dedup_window', 'per_key', 'breaker', 'gated', 'results', 'results_bytes'
)
local noted, dedup_window, per_key, gated = values[1], values[2], values[3], values[5]
local acked, back, note, heads, once_gone, successes, probes, firsts
if (values[4] or gated) and redis.call('EXISTS', strikes, lanes, runs) > 0 then
  -- needs: succeeded, probed, first_tried
  successes, probes, firsts = succeeded, probed, first_tried
end
if noted or dedup_window then
  -- needs: now
  if dedup_window then
    -- needs: remember_acked
    once_gone = remember_acked
  end
  if noted then
    -- needs: head_of, note_acked
    note, heads = note_acked, {}
    for n, id in ipairs(ids) do
      heads[n] = head_of(id, texts[n])
    end
  end
end
local with_result, births
for n = 1, #ids do
  if texts[n]:find(' result=', 1, true) then
    with_result, births = with_result or {}, births or {}
    local last, birth = #with_result + 1, texts[n]:match(' result=(%d*)')
    if #birth < 2 then -- version 0.1.0 sent it
      -- needs: head_of
      local head = head_of(ids[n], texts[n])
      birth = head and string.format('%.0f', head.birth) or '0'
    end
    with_result[last], births[last] = ids[n], birth
  end
end
if with_result then -- first, so that a message that is gone has its result
  -- needs: now
  local ended, ends, kept_for, most_bytes = with_result, {}, values[6], values[7]
  for n, id in ipairs(ended) do
    ends[n] = string.format('acked %.0f ', now) .. (given[id] or '') -- %s would end at a byte 0
  end
  -- needs: kept
end
do
  -- needs: gone
  acked = gone
end
redis.call('HINCRBY', counters, 'acked', acked)
if successes then
  -- needs: count_successes
  back = count_successes(successes, firsts, probes, gated, #ids)
end
if noted then
  note(ids, heads, texts)
end
for n = 1, acked do
  local job = #texts[n] > WORDLESS and texts[n]:match(' redrive=([^/ ]+)/')
  if job then
    -- needs: count_redriven
    count_redriven(job, 'acked')
  end
end
