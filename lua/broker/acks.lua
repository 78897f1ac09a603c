-- Acked messages are done: they are removed, and counted. With a `dedup_window` their ids are remembered.
local SETTLED = Leases.SETTLED
local PLAIN = 75 -- bytes; a state with the field of a redrive (Redrive.bring_back) is longer, most others are not

-- Remembers acked ids for the queue's dedup_window: a send under one of them is known (Acks.recall). It removes at most
-- twice as many past ids as it adds (I9), and the key expires when nothing was acked for that time (I13).
local function remember(q, ids, dedup_window)
  local window, rows, score = Values.span(dedup_window), {}, Values.digits(q.now)
  if not window then
    return
  end
  for _, id in ipairs(ids) do
    rows[#rows + 1], rows[#rows + 2] = score, id
  end
  redis.call('ZADD', q.acked_ids, unpack(rows))
  redis.call('PEXPIRE', q.acked_ids, window)
  local over = redis.call('ZRANGEBYSCORE', q.acked_ids, '-inf', q.now - window, 'LIMIT', 0, 2 * #ids)
  if #over > 0 then
    redis.call('ZREM', q.acked_ids, unpack(over))
  end
end

-- Marks as known those of the ids that were acked within the queue's dedup_window (remember).
function Acks.recall(q, ids, known, dedup_window)
  local window = Values.span(dedup_window)
  for n, id in ipairs(window and ids or {}) do
    local at = not known[n] and tonumber(redis.call('ZSCORE', q.acked_ids, id) or nil)
    known[n] = known[n] or at and at > q.now - window
  end
end

-- Keeps the results of those messages whose results were asked for.
local function keep_results(q, ids, texts, given, set)
  local ended, ends, births
  for n = 1, #ids do
    if texts[n]:find(' result=', 1, true) then
      ended, ends, births = ended or {}, ends or {}, births or {}
      local last, birth = #ended + 1, texts[n]:match(' result=(%d*)')
      if #birth < 2 then -- version 0.1.0 sent it
        local head = Record.head_of(q, ids[n], texts[n])
        birth = head and Values.digits(head.birth) or '0'
      end
      ended[last], births[last] = ids[n], birth
      ends[last] = 'acked ' .. Values.digits(q.now) .. ' ' .. (given[ids[n]] or '')
    end
  end
  if ended then
    Results.keep(q, ended, ends, births, set[6], set[7])
  end
end

-- The heads of messages, for the outcome history.
local function heads_of(q, ids, texts)
  local heads = {}
  for n, id in ipairs(ids) do
    heads[n] = Record.head_of(q, id, texts[n]) -- nil: an ack was cut off
  end
  return heads
end

-- Removes messages that were acked, and counts them. Returns the dependency whose breaker that closed; nil: none.
--   texts: their states before the ack; given: id → its result, where there is one
function Acks.remove(q, ids, texts, given)
  local settings = redis.call(
    'HMGET', q.settings, 'outcomes', 'dedup_window', 'per_key', 'breaker', 'gated', 'results', 'results_bytes'
  )
  local gated, successes, closed = settings[5], nil, nil
  if (settings[4] or gated) and redis.call('EXISTS', q.strikes, q.lanes, q.runs) > 0 then
    successes = Breaker.successes(q, ids, texts, gated)
  end
  local heads = settings[1] and heads_of(q, ids, texts)
  keep_results(q, ids, texts, given, settings) -- first, so that a message that is gone has its result
  local acked = Places.gone(q, ids, settings[3], gated, settings[2] and function()
    remember(q, ids, settings[2])
  end)
  redis.call('HINCRBY', q.counters, 'acked', acked)
  if successes then
    closed = Breaker.count_successes(q, successes)
  end
  if heads then
    Outcomes.note_acked(q, ids, heads, texts)
  end
  for n = 1, #ids do
    local job = #texts[n] > PLAIN and texts[n]:match(' redrive=([^/ ]+)/')
    if job then
      Redrive.count(q, job, 'acked')
    end
  end
  return closed
end

-- Acks messages: they are done, and are removed. Returns a verdict for each, or only SETTLED if all have it; for one of
-- them `acked`, `closed` and the dependency whose breaker they have closed, if any.
-- drains
function Verbs.ack(q, ARGV)
  local with_results = tonumber(ARGV[1]) -- the number of results that precede the items
  -- items from ARGV[2]: held (Settle.held; before them the id and the result of each that has one)
  local first, given = 2 + 2 * with_results, {}
  for n = 2, first - 1, 2 do
    given[ARGV[n]] = ARGV[n + 1]
  end
  local verdicts, ids, texts, counts = Settle.held(q, ARGV, first)
  local closed = #ids > 0 and Acks.remove(q, ids, texts, given)
  Leases.take_off(q, counts)
  for n, verdict in ipairs(closed and verdicts or {}) do
    if verdict == SETTLED then
      verdicts[n] = 'acked  closed ' .. closed
      return verdicts
    end
  end
  return #ids == #verdicts and SETTLED or verdicts
end

-- Acks all of the messages or none: the end of a session that sends nothing. Returns, for each item that is not held, its
-- position (1, 2, …) and its verdict. If there is one, nothing was changed.
-- drains
-- items from ARGV[1]: id, token
function Verbs.ack_all(q, ARGV)
  local ids, texts, held, lost, seen = {}, {}, {}, {}, {}
  for i = 1, #ARGV, 2 do
    local id, token = ARGV[i], ARGV[i + 1]
    local text = redis.call('HGET', q.states, id)
    local verdict = State.holds(token, text) and SETTLED or Leases.refusal(q, id, token, text)
    if verdict == SETTLED and not seen[id] then -- an item may be given twice
      ids[#ids + 1], texts[#ids + 1] = id, text
      held[token], seen[id] = (held[token] or 0) + 1, true
    elseif verdict ~= SETTLED then
      lost[#lost + 1], lost[#lost + 2] = (i + 1) / 2, verdict
    end
  end
  if #lost == 0 then
    Acks.remove(q, ids, texts, {})
    Leases.take_off(q, held)
  end
  return lost
end
