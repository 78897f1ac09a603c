-- Keeps the outcomes of messages whose results were asked for (result.lua), and notifies callers that wait now. The newest
-- outcome counts. They are kept for the queue's `results`, within its `results_bytes`: the oldest go first, and are
-- counted. A write that fails stops nothing, since the queue keeps running when memory is full: a waiting caller is told
-- that there is no result. Statements, as in lib/chosen, since every ack with a result runs them; old results are read only
-- if some must go.
--   ended, ends: ids, and for each "word time rest"; acked: the rest is its result (rq_dlq/core/results/results.py), empty:
--   none was given; otherwise the reason and, after a tab, the cause. false: forget the outcome of the message
--   kept_for, most_bytes: the settings
-- needs: now, span, RESULTS_KEPT, RESULT_EXTRA; keys: results, result_times, counters
-- needs: locals: ended, ends, kept_for, most_bytes
-- gives: kept
local BYTES = 67108864 -- of all results
local MOST, MOST_BYTES = 2200, 33554432 -- results that one script drops (I9): as many as half a megabyte may need
local AT_ONCE = 100 -- ids that one command reads
local lasts, limit = span(kept_for) or RESULTS_KEPT, tonumber((most_bytes or ''):match('^%d+$') or nil) or BYTES
local before = redis.call('HMGET', results, '', unpack(ended)) -- under the empty id: the bytes of all
local over = redis.call('ZRANGEBYSCORE', result_times, '-inf', now - lasts, 'LIMIT', 0, 2 * #ended)
local total, wanted, sizes, dropped = tonumber(before[1] or nil) or 0, 0, {}, 0
for n, id in ipairs(ended) do
  if before[n + 1] then
    over[#over + 1] = id
  end
  sizes[n] = ends[n] and 2 * #id + #ends[n] + RESULT_EXTRA or 0
  wanted = wanted + (sizes[n] <= limit and sizes[n] or 0)
end
if over[1] or total + wanted > limit then
  -- needs: forget_results
  total = total - forget_results(over, math.huge)
  local room = math.min(total + wanted - limit, MOST_BYTES)
  while room > 0 and dropped < MOST do
    local oldest = redis.call('ZRANGE', result_times, 0, AT_ONCE - 1)
    if not oldest[1] then
      total = 0 -- nothing is left, whatever was counted
      break
    end
    local freed, gone = forget_results(oldest, room)
    total, room, dropped = total - freed, room - freed, dropped + gone
  end
end
local rows, cells, last, kept, kept_at = {}, { '', 0 }, 0, {}, string.format('%.0f', now)
for n, id in ipairs(ended) do
  if ends[n] and total + sizes[n] <= limit then
    total, kept[n], last = total + sizes[n], ends[n], last + 2
    rows[last - 1], rows[last] = kept_at, id
    cells[last + 1], cells[last + 2] = id, ends[n]
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
    redis.pcall('PUBLISH', results .. ':' .. id, written and kept[n] or 'unkept 0 ')
  end
end
