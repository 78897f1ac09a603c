-- Acked messages are done: they are removed, and counted. With a `dedup_window` their ids are remembered.
--
-- A send under a remembered id adds nothing, as if the message were still there, whether by `send`, `send_many`, a
-- session or a job. A kept result remembers an ack, too, but only until it has to make room (results.lua).
--
-- - Only acks are remembered, also those of claimed dead letters: the work was done. The work of a message that was
--   purged, discarded, expired or moved away was not; a moved message is remembered where it is acked. Moves, copies
--   and redrives are not sends: an operator chose these messages, so no memory refuses them.
-- - `acked_ids` is sorted by the time of the ack. An ack writes it as soon as the record is gone, then removes at most
--   twice as many expired ids as it added: the set shrinks to the window. A send compares the time itself, so the window
--   is exact, and a change of the setting takes effect at once.
local SETTLED = Reply.SETTLED
local UNIQUE = '\1' -- as in resend.lua
local PLAIN = 75 -- bytes; a state with the field of a redrive (Redrive.bring_back) is longer, most others are not

-- Adds ids to those that stay known: score, member, … The key expires with the last of them, and after `window` (I13).
local function add(q, rows, window)
  redis.call('ZADD', q.acked_ids, unpack(rows))
  local last = redis.call('ZRANGE', q.acked_ids, -1, -1, 'WITHSCORES')[2]
  redis.call('PEXPIRE', q.acked_ids, Values.digits(math.max(window, last - q.now)))
end

-- Removes ids that are no longer known, at most twice as many as were acked (I9).
local function forget_past(q, upto, acked)
  local over = redis.call('ZRANGEBYSCORE', q.acked_ids, '-inf', upto, 'LIMIT', 0, 2 * acked)
  if over[1] then
    redis.call('ZREM', q.acked_ids, unpack(over))
  end
end

-- Remembers acked ids for the queue's dedup_window: a send under one of them is known (Acks.recall).
local function remember(q, ids, dedup_window)
  local window, rows, score = Values.span(dedup_window), {}, Values.digits(q.now)
  if not window then
    return
  end
  for _, id in ipairs(ids) do
    rows[#rows + 1], rows[#rows + 2] = score, id
  end
  add(q, rows, window)
  forget_past(q, q.now - window, #ids)
end

-- Marks as known those of the ids that were acked within the queue's dedup_window (remember).
function Acks.recall(q, ids, known, dedup_window)
  local window = Values.span(dedup_window)
  for n, id in ipairs(window and ids or {}) do
    local at = not known[n] and tonumber(redis.call('ZSCORE', q.acked_ids, id) or nil)
    known[n] = known[n] or at and at > q.now - window
  end
end

-- Remembers the ids of acked messages that stay known for longer (resend.lua), each until its own time.
local function remember_unique(q, ids, texts, dedup_window)
  local rows = {}
  for n, id in ipairs(ids) do
    local ends = tonumber(texts[n]:match(' unique=(%d+)') or nil)
    if ends and ends > q.now then
      rows[#rows + 1], rows[#rows + 2] = Values.digits(ends), UNIQUE .. id
    end
  end
  if rows[1] then
    add(q, rows, Values.span(dedup_window) or 0)
  end
  if not dedup_window then -- otherwise `remember` does it
    forget_past(q, q.now, #ids)
  end
end

-- Keeps the results that were asked for. Returns whether any message is of a gather, is known after its ack, or gets one
-- more run: the states of these have that word, too; and whether any state may have the field of a redrive.
--   rests: the results by position; '' or nil: none was given
local function keep_results(q, ids, texts, rests)
  local births, linked, longer, seen, start, birth
  for n = 1, #ids do
    local text = texts[n]
    if text ~= seen then -- most messages have the same state, but for the birth, and no other field
      seen, birth = text, start and text:find(start, 1, true) == 1 and text:match('^%d+$', #start + 1)
      if not birth then
        local _, last = text:find(' result=', 1, true)
        birth = last and text:match('^%d*', last + 1)
        start = last and text:find('=', 1, true) == last and last + #birth == #text and text:sub(1, last)
        linked = linked or last and not start and text:find(' [agu]%l+=')
        longer = longer or not start and #text > PLAIN
      end
    end
    if birth and birth ~= '0' then -- otherwise no caller asked
      births = births or {}
      -- of fewer digits: version 0.1.0 sent it
      births[n] = #birth > 1 and birth or Values.digits(Record.birth_of(q, ids[n], text) or 0)
      rests[n] = rests[n] or ''
    end
  end
  if births then
    Results.keep(q, ids, 'acked', rests, births)
  end
  return linked, longer
end

-- Removes messages that were acked, and counts them. Returns the dependency whose breaker that closed; nil: none; and
-- whether all children of a gather have ended.
--   texts: their states before the ack; rests: their results (keep_results)
--   most: how many messages may have a pass then, if a dependency comes back; nil: as many as are acked
function Acks.remove(q, ids, texts, rests, most)
  local settings = redis.call('HMGET', q.settings, 'outcomes', 'dedup_window', 'per_key', 'breaker', 'gated')
  local gated, successes, closed = settings[5] or settings[3] or settings[4], nil, nil
  gated = gated and Lanes.are_special(settings[3], settings[4], settings[5])
  if (settings[4] or gated) and redis.call('EXISTS', q.strikes, q.special, q.runs) > 0 then
    successes = Breaker.successes(q, ids, texts, gated, most or #ids)
  end
  local born = settings[1] and Record.births_of(q, ids, texts)
  -- first, so that a message that is gone has its result, and its end is known to its gather
  local over, others, linked, longer = nil, ids, keep_results(q, ids, texts, rests)
  if linked then
    over = Gathers.note_acked(q, ids, texts)
    remember_unique(q, ids, texts, settings[2])
    others = Again.put_back(q, ids, texts)
  end
  if others[1] then
    Places.gone(q, others, settings[3], gated, settings[2] and function()
      remember(q, ids, settings[2])
    end)
  elseif settings[2] then
    remember(q, ids, settings[2])
  end
  redis.call('HINCRBY', q.counters, 'acked', Values.count(#ids))
  for _, gather in ipairs(over or {}) do
    Gathers.forget(q, gather)
  end
  if successes then
    closed = Breaker.count_successes(q, successes)
  end
  if born then
    Outcomes.note_acked(q, settings[1], ids, born, texts)
  end
  for n = 1, longer and #ids or 0 do
    local job = #texts[n] > PLAIN and Redrive.of(texts[n])
    if job then
      Redrive.count(q, job, 'acked')
    end
  end
  return closed, over and q.share_ended
end

-- Acks messages: they are done, and are removed. Returns a verdict for each, or only SETTLED if all have it; for one of
-- them ACKED, CLOSED and the dependency whose breaker they have closed; otherwise ACKED and GATHERED if all children of a
-- gather have ended, whose share the caller carries.
-- drains
function Verbs.ack(q, ARGV)
  local given = tonumber(ARGV[1]) -- how many results precede the items: one for each, empty: none was given; or 0
  -- items from ARGV[2]: held (Settle.held; before them the results)
  local verdicts, ids, texts, counts = Settle.held(q, ARGV, 2 + given)
  local rests, size, closed, ended = {}, 0, nil, nil
  for n = 1, given do
    if verdicts[n] == SETTLED then
      size = size + 1
      rests[size] = ARGV[1 + n]
    end
  end
  if #ids > 0 then
    closed, ended = Acks.remove(q, ids, texts, rests)
  end
  Leases.take_off(q, counts)
  for n, verdict in ipairs((closed or ended) and verdicts or {}) do
    if verdict == SETTLED then
      verdicts[n] = Reply.ACKED .. '  ' .. (closed and Reply.CLOSED .. ' ' .. closed or Reply.GATHERED .. ' ')
      return verdicts
    end
  end
  return #ids == #verdicts and SETTLED or verdicts
end
