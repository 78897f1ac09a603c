-- Keeps the outcomes of messages whose results were asked for (result.lua), and notifies callers that wait now. The newest
-- outcome counts. They are kept for the queue's `results`, within its `results_bytes`: the oldest go first, and are
-- counted. A write that fails stops nothing, since the queue keeps running when memory is full: a waiting caller is told
-- that there is no result. Statements, as in lib/chosen, since every ack with a result runs them; old results are read only
-- if some must go.
-- The birth of its send has a row after that of each outcome: "word time birth" (lib/kept_birth). Version 0.1.0, which knows
-- no births, drops such a row as it drops an outcome, so none stays.
--   ended, ends: ids, and for each "word time rest"; acked: the rest is its result (rq_dlq/core/results/results.py), empty:
--   none was given; otherwise the reason and, after a tab, the cause. false: forget the outcome of the message
--   births: of their sends, as text; '0': unknown
--   kept_for, most_bytes: the settings
-- needs: now, span, RESULTS_KEPT, RESULT_EXTRA, BORN; keys: results, result_times, counters
-- needs: locals: ended, ends, births, kept_for, most_bytes
-- gives: kept
local BYTES = 67108864 -- of all results
local lasts, limit = span(kept_for) or RESULTS_KEPT, tonumber((most_bytes or ''):match('^%d+$') or nil) or BYTES
local names, starts, born, sizes, wanted = { '' }, {}, {}, {}, 0 -- under the empty id: the bytes of all
for n, id in ipairs(ended) do
  names[2 * n], names[2 * n + 1] = id, id .. BORN
  starts[n] = ends[n] and ends[n]:match('^%a+ %d+ ')
  born[n] = ends[n] and starts[n] .. births[n]
  sizes[n] = ends[n] and 4 * #id + 2 * #BORN + #ends[n] + #born[n] + 2 * RESULT_EXTRA or 0
  wanted = wanted + (sizes[n] <= limit and sizes[n] or 0)
end
local before = redis.call('HMGET', results, unpack(names))
local over = redis.call('ZRANGEBYSCORE', result_times, '-inf', now - lasts, 'LIMIT', 0, 4 * #ended)
for at = 2, #names do
  over[#over + 1] = before[at] and names[at] or nil
end
local total, dropped = tonumber(before[1] or nil) or 0, 0
if over[1] or total + wanted > limit then
  -- needs: make_room
  total, dropped = make_room(over, total, wanted, limit)
end
local rows, cells, last, kept, kept_at = {}, { '', 0 }, 0, {}, string.format('%.0f', now)
for n, id in ipairs(ended) do
  if ends[n] and total + sizes[n] <= limit then
    total, kept[n], last = total + sizes[n], true, last + 4
    rows[last - 3], rows[last - 2], rows[last - 1], rows[last] = kept_at, id, kept_at, id .. BORN
    cells[last - 1], cells[last], cells[last + 1], cells[last + 2] = id, ends[n], id .. BORN, born[n]
  elseif ends[n] then
    dropped = dropped + 1
  end
end
cells[2] = string.format('%.0f', math.max(0, total))
local written = last == 0 or type(redis.pcall('ZADD', result_times, unpack(rows))) == 'number'
if written and (last > 0 or before[1]) then
  written = type(redis.pcall('HSET', results, unpack(cells))) == 'number'
end
redis.call('PEXPIRE', results, lasts)
redis.call('PEXPIRE', result_times, lasts)
if dropped > 0 then
  redis.pcall('HINCRBY', counters, 'results_dropped', dropped)
end
for n, id in ipairs(ended) do
  if ends[n] then -- if the user must not publish, a waiting caller finds it within a second
    local is_kept = written and kept[n] -- in the place of the time the birth: version 0.1.0 does not read the time here
    local word, rest = is_kept and starts[n]:match('^%a+') or 'unkept', is_kept and ends[n]:sub(#starts[n] + 1) or ''
    redis.pcall('PUBLISH', results .. ':' .. id, word .. ' ' .. births[n] .. ' ' .. rest)
  end
end
