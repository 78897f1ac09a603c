-- Keeps what became of messages, for whoever asked for it (result.lua), and tells who waits for it now. The newest outcome
-- stands. Kept for the queue's `results`, within its `results_bytes`: the oldest go first, counted. A write that fails stops
-- nothing, since the queue goes on when memory is full: who waits is told that there is no result.
--   ends: of each message "word time rest"; acked: the rest is its result (rq_dlq/core/results/results.py), empty: none was
--   given; else the reason and, behind a tab, the cause. false: what was kept of the message is forgotten
-- needs: now, span, RESULTS_KEPT; keys: results, result_times, settings, counters
-- gives: keep_results
local BYTES, EACH = 67108864, 200 -- of all; of one, in Redis, beside its text and twice its id
local MOST = 1000 -- that make room for others in one script (I9)

local function size_of(id, length)
  return length > 0 and 2 * #id + length + EACH or 0
end

-- Returns how many bytes that frees. The row goes last: by it is found what was cut off.
local function forget(ids)
  local freed = 0
  for _, id in ipairs(ids) do
    freed = freed + size_of(id, redis.call('HSTRLEN', results, id))
    redis.call('HDEL', results, id)
    redis.call('ZREM', result_times, id)
  end
  return freed
end

local function keep_results(ids, ends)
  local values = redis.call('HMGET', settings, 'results', 'results_bytes')
  local kept_for, limit = span(values[1]) or RESULTS_KEPT, tonumber((values[2] or ''):match('^%d+$') or nil) or BYTES
  local before = redis.call('HMGET', results, '', unpack(ids)) -- under the empty id: the bytes of all
  local old = redis.call('ZRANGEBYSCORE', result_times, '-inf', now - kept_for, 'LIMIT', 0, 2 * #ids)
  for n, id in ipairs(ids) do
    old[#old + 1] = before[n + 1] and id or nil
  end
  local total, rows, cells, kept, dropped = (tonumber(before[1] or nil) or 0) - forget(old), {}, { '', 0 }, {}, 0
  local kept_at = string.format('%.0f', now)
  for n, id in ipairs(ids) do
    local more = size_of(id, ends[n] and #ends[n] or 0)
    while total + more > limit and more <= limit and dropped < MOST do
      local oldest = redis.call('ZRANGE', result_times, 0, 0)
      total = oldest[1] and total - forget(oldest) or 0
      dropped = dropped + #oldest
    end
    if more > 0 and total + more <= limit then
      total, kept[n] = total + more, true
      rows[#rows + 1], rows[#rows + 2] = kept_at, id
      cells[#cells + 1], cells[#cells + 2] = id, ends[n]
    elseif more > 0 then
      dropped = dropped + 1
    end
  end
  cells[2] = string.format('%.0f', math.max(0, total))
  local written = #rows == 0 or type(redis.pcall('ZADD', result_times, unpack(rows))) == 'number'
  if written and (#rows > 0 or before[1]) then
    written = type(redis.pcall('HSET', results, unpack(cells))) == 'number'
  end
  redis.call('PEXPIRE', results, kept_for)
  redis.call('PEXPIRE', result_times, kept_for)
  if dropped > 0 then
    redis.pcall('HINCRBY', counters, 'results_dropped', dropped)
  end
  for n, id in ipairs(ids) do
    if ends[n] then -- without the right to, who waits finds it within a second
      redis.pcall('PUBLISH', results .. ':' .. id, written and kept[n] and ends[n] or 'unkept 0 ')
    end
  end
end
