-- Removes messages that were acked, and everything that was kept about them (I13). Statements, as in lib/chosen.
--   ids, texts: of the messages, and the states that they had
-- needs: keys: messages, states, history, counters, settings; locals: ids, texts
-- gives: acked
local WORDLESS = 75 -- bytes; a state with the word of a redrive (lib/bring_back) is longer, those of most messages are not
local acked = #ids
local values = redis.call('HMGET', settings, 'outcomes', 'dedup_window')
local noted, window, heads = values[1], values[2], {}
local note, at
if noted or window then
  -- needs: now
  at = now
  if noted then
    -- needs: head_of, note_acked
    note = note_acked
    for n, id in ipairs(ids) do
      heads[n] = head_of(id, texts[n])
    end
  end
end
redis.call('HDEL', messages, unpack(ids)) -- from here on they are acked
if window then
  -- needs: remember_acked
  remember_acked(ids, window, at)
end
redis.call('HDEL', history, unpack(ids))
redis.call('HDEL', states, unpack(ids)) -- the last: it tells a sweep that an ack was cut off
redis.call('HINCRBY', counters, 'acked', acked)
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
