-- The outcomes of messages whose results were asked for (verb `result`): the newest one of each id. They are kept for the
-- queue's `results`, within its `results_bytes`: the oldest go first, and are counted. Each is "word time rest"; the birth
-- of its send has an entry after it, "word time birth".
--
-- An id is free when its message is gone, so it may name several messages, one after another. Each answer is about one
-- send, which its birth names: otherwise the error of an earlier order is raised for the new one.
--
-- - The state of a message has `result=BIRTH`, so an ack, which reads no records, finds whose outcome it keeps. Version
--   0.1.0 wrote `result=1`, and looks only whether the field is there.
-- - The entry of the birth is in the same two keys, under the id and a byte that no id has, and is written by the same
--   commands. If 0.1.0 replaces or drops an outcome, word and time of the two differ, and the outcome counts as one
--   without a birth. To 0.1.0 the entry itself is an outcome, which it drops by time and to make room: so the entries
--   are bounded beside it, too. `results_bytes` counts them, 250 bytes for each result.
-- - By id alone the newest send is meant: the message in the queue, or else what is kept. A new message whose id has a
--   kept outcome has its own outcome kept, too, even unasked, so it replaces the earlier one. An outcome without a
--   birth is of no message that waits, and of none that was sent after it; nothing else is certain of it.
-- - A notice has the birth in the place of the time, which no version reads there.
-- - Two keys a queue, a hash and an index by time, not a key for each result: keys are declared, and a bound on the
--   bytes needs an order. The sum of the bytes is in the hash, written with the results, so it cannot drift. One call drops
--   at most 2,200 results, which half a megabyte of the smallest may need, or 32 MB where the bound was lowered.
local KEPT = 3600000 -- milliseconds for which results are kept if the settings do not set it
local BYTES = 67108864 -- of all results, if the settings do not set it
local EXTRA = 200 -- bytes of an entry in Redis, in addition to its text and twice its name
local BORN = '\1' -- follows the id in the name of the entry of a birth; no id has this byte
local LONG = ('0'):rep(65) -- Redis keeps a hash whose values were all shorter in a list, which it searches (Lanes.add)
local TOTAL = '' -- the name of the entry of the bytes of all, instead of an id
local MOST, MOST_BYTES = 4400, 33554432 -- entries that one call drops (I9): as many as half a megabyte may need
local AT_ONCE, TOGETHER = 100, 1000 -- entries that one command reads, or removes

-- The time before which outcomes are no longer kept, by the setting `results`.
local function kept_since(q, setting)
  return q.now - (Values.span(setting) or KEPT)
end

-- The birth of the send whose outcome, `ended`, is kept; `born`: the entry of that. nil: unknown, since 0.1.0 kept it.
local function birth_of(ended, born)
  local start, birth = (born or ''):match('^(%a+ %d+ )(%d+)$')
  birth = start and ended:sub(1, #start) == start and tonumber(birth) or 0
  return birth > 0 and birth or nil
end

-- The outcome of a send, if it is kept, and its birth, 0: unknown. nil: there is none, or that of another send.
--   ended, born: the entries of the id; since: what ended earlier is no longer kept
--   meant: the birth of the send; 0: the newest send of the id; -1: of several, the newest that has ended
--   here: the birth of the message that the queue has under the id, nil: none; waits: it is neither dead nor expired
local function own_end(ended, born, since, meant, here, waits)
  local at = ended and tonumber(ended:match('^%a+ (%d+) ') or nil)
  if not at or at <= since then
    return nil
  end
  local birth = birth_of(ended, born)
  if meant < 0 then
    return ended, birth or 0
  end
  local asked = meant > 0 and meant or here or birth or 0
  -- An outcome without a birth is that of no message that still waits, and of none that was sent later.
  local may_be = asked <= at * 4096 + 4095 and (not here or here == asked and not waits)
  if birth == asked or not birth and may_be then
    return ended, birth or 0
  end
end

-- Marks as known those of the ids whose ack is still kept as an outcome: `existing` gets the birth of that send. Returns
-- n → true for those whose kept outcome is another one: such an id is free. Once the last outcome with a birth has gone,
-- the settings lose `kept`, and no send looks.
function Results.recall(q, ids, existing, kept_for)
  local since, names, ended = kept_since(q, kept_for), {}, {}
  for n, id in ipairs(ids) do
    names[n] = id .. BORN
  end
  names[#ids + 1] = TOTAL
  local found = redis.call('HMGET', q.results, unpack(names))
  if not found[#ids + 1] then
    redis.call('HDEL', q.settings, 'kept')
  end
  for n = 1, #ids do
    local word, at, birth = (not existing[n] and found[n] or ''):match('^(%a+) (%d+) (%d+)$')
    -- If the times differ, version 0.1.0 has dropped or replaced the outcome.
    if word and tonumber(at) > since and tonumber(redis.call('ZSCORE', q.result_times, ids[n]) or nil) == tonumber(at) then
      existing[n] = word == 'acked' and tonumber(birth)
      ended[n] = not existing[n]
    end
  end
  return ended
end

-- Whether a send that is not in the queue was acked, as its outcome or the dedup_window remembers: its birth, 0: unknown;
-- nil: nothing does.
--   meant: as in `own_end`; here: the birth of another message with this id
function Results.acked_before(q, id, meant, here)
  local set = redis.call('HMGET', q.settings, 'dedup_window', 'results')
  local kept = redis.call('HMGET', q.results, id, id .. BORN)
  local ended, birth = own_end(kept[1], kept[2], kept_since(q, set[2]), meant, here, true)
  if ended and ended:find('^acked ') then
    return birth
  end
  local known = {}
  Acks.recall(q, { id }, known, set[1])
  return known[1] and meant or nil
end

-- Forgets the first of these rows, each outcome with its birth, until `enough` bytes are free. Returns how many bytes that
-- freed, and how many outcomes went. The rows of `result_times` go last: by them a later call finds what was cut off.
local function forget(q, rows, enough)
  local freed, gone, outcomes = 0, {}, 0
  for _, row in ipairs(rows) do
    if freed >= enough then
      break
    end
    local is_birth = row:sub(-1) == BORN
    outcomes = outcomes + (is_birth and 0 or 1)
    for _, name in ipairs({ row, not is_birth and row .. BORN or nil }) do
      local length = gone[name] and 0 or redis.call('HSTRLEN', q.results, name)
      freed = freed + (length > 0 and 2 * #name + length + EXTRA or 0)
      gone[#gone + 1], gone[name] = name, true
    end
  end
  for at = 1, #gone, TOGETHER do
    local stop = math.min(at + TOGETHER - 1, #gone)
    redis.call('HDEL', q.results, unpack(gone, at, stop))
    redis.call('ZREM', q.result_times, unpack(gone, at, stop))
  end
  return freed, outcomes
end

-- Makes room for new results: forgets the rows `over`, and the oldest, until there is room for `wanted` bytes. Returns how
-- many bytes the others take, and how many outcomes went before their time.
--   total: the bytes of all before that; limit: the most
local function make_room(q, over, total, wanted, limit)
  total = total - forget(q, over, math.huge)
  local room, dropped, seen = math.min(total + wanted - limit, MOST_BYTES), 0, 0
  while room > 0 and seen < MOST do
    local oldest = redis.call('ZRANGE', q.result_times, 0, AT_ONCE - 1)
    if not oldest[1] then
      return 0, dropped -- nothing is left, whatever was counted
    end
    local freed, gone = forget(q, oldest, room)
    total, room, dropped, seen = total - freed, room - freed, dropped + gone, seen + #oldest
  end
  return total, dropped
end

-- What is written of outcomes: the rows, the cells and the bytes of those that fit into `room`; position → true for the
-- others, and how many these are; then the names of the entries of all.
--   begin: of each outcome, "word time "; rests, births: as in Results.keep
local function laid_out(q, ids, begin, rests, births, room)
  local names, rows, cells, at, last = { TOTAL }, {}, { TOTAL, LONG }, 1, 0
  local each, now, bytes, unkept, dropped = 2 * (#BORN + #begin + EXTRA), Values.digits(q.now), 0, {}, 0
  for n = 1, #ids do
    local id, rest, birth = ids[n], rests[n], births[n]
    if birth then
      local name = id .. BORN
      names[at + 1], names[at + 2], at = id, name, at + 2
      local size = rest and each + 4 * #id + #rest + #birth or 0
      if rest and bytes + size <= room then
        bytes, last = bytes + size, last + 4
        rows[last - 3], rows[last - 2], rows[last - 1], rows[last] = now, id, now, name
        cells[last - 1], cells[last], cells[last + 1], cells[last + 2] = id, begin .. rest, name, begin .. birth
      elseif rest then
        unkept[n], dropped = true, dropped + 1
      end
    end
  end
  return rows, cells, bytes, unkept, dropped, names
end

-- Writes outcomes as they are laid out. Returns whether it could.
--   total: the bytes of all; known: whether that is there
local function write(q, rows, cells, total, known)
  local last = #cells
  cells[last + 1], cells[last + 2] = TOTAL, Values.digits(math.max(0, total)) -- in the place of LONG
  local written = not rows[1] or type(redis.pcall('ZADD', q.result_times, unpack(rows))) == 'number'
  if written and (rows[1] or known) then
    written = type(redis.pcall('HSET', q.results, unpack(cells))) == 'number'
  end
  return written
end

-- Notifies callers that wait now. If the user must not publish, they find the outcome within a second.
--   unkept: of which outcomes they are told that they were not kept; true: of all
local function notify(q, ids, word, rests, births, unkept)
  local kept = word .. ' '
  for n = 1, #ids do
    local id, rest, birth = ids[n], rests[n], births[n]
    if birth and rest then -- in the place of the time the birth: version 0.1.0 does not read the time here
      local is_kept = unkept ~= true and not unkept[n]
      local notice = is_kept and kept .. birth .. ' ' .. rest or 'unkept ' .. birth .. ' '
      redis.pcall('PUBLISH', q.results .. ':' .. id, notice)
    end
  end
end

-- Keeps the outcomes of messages, and notifies callers that wait now. A write that fails stops nothing, since the queue
-- keeps running when memory is full: a waiting caller is told that there is no result.
--   word: of all of them; births: of their sends, as text; '0': unknown; nil: no caller asked for it
--   rests: of `acked` the result (rq_dlq/core/results/results.py), empty: none was given; otherwise the reason and, after a
--   tab, the cause. false: forget the outcome of the message
function Results.keep(q, ids, word, rests, births)
  local set = redis.call('HMGET', q.settings, 'results', 'results_bytes', 'kept') -- kept: a send looks for outcomes
  local lasts, limit = Values.span(set[1]) or KEPT, tonumber((set[2] or ''):match('^%d+$') or nil) or BYTES
  local begin = word .. ' ' .. Values.digits(q.now) .. ' '
  local rows, cells, wanted, unkept, dropped, names = laid_out(q, ids, begin, rests, births, limit)
  local before = redis.call('HMGET', q.results, unpack(names))
  local over = redis.call('ZRANGEBYSCORE', q.result_times, '-inf', q.now - lasts, 'LIMIT', 0, 4 * #ids)
  for at = 2, #names do
    over[#over + 1] = before[at] and names[at] or nil
  end
  local total, made_room = tonumber(before[1] or nil) or 0, 0
  if over[1] or total + wanted > limit then
    total, made_room = make_room(q, over, total, wanted, limit)
  end
  if total + wanted > limit then -- that took long enough
    rows, cells, wanted, unkept, dropped = laid_out(q, ids, begin, rests, births, limit - total)
  end
  if wanted > 0 and not set[3] then
    redis.pcall('HSET', q.settings, 'kept', 1) -- first: from now on sends look for outcomes
  end
  local written = write(q, rows, cells, total + wanted, before[1])
  redis.call('PEXPIRE', q.results, lasts)
  redis.call('PEXPIRE', q.result_times, lasts)
  if made_room + dropped > 0 then
    redis.pcall('HINCRBY', q.counters, 'results_dropped', made_room + dropped)
  end
  notify(q, ids, word, rests, births, not written or unkept)
end

-- What is told of a send without an outcome: PENDING, UNASKED or UNKNOWN.
--   asks: its result was asked for; here: the birth of the message that the queue has, if that is known
local function without_end(q, id, text, meant, asks, here)
  if asks then
    return (meant <= 0 or meant == here) and Reply.PENDING or Reply.UNKNOWN
  end
  local birth = Record.birth_of(q, id, text)
  return birth and (meant <= 0 or meant == birth) and Reply.UNASKED or Reply.UNKNOWN
end

-- Reads the outcomes of sends whose results were asked for. Returns each outcome and the birth of its send (0: unknown);
-- or, if there is none (any more), PENDING, UNASKED, or UNKNOWN.
-- items from ARGV[1]: id, birth (own_end)
-- reads
function Verbs.result(q, ARGV)
  local since = kept_since(q, redis.call('HGET', q.settings, 'results'))
  local ids, names, left = {}, {}, {}
  for n = 1, #ARGV, 2 do
    ids[#ids + 1], names[n], names[n + 1] = ARGV[n], ARGV[n], ARGV[n] .. BORN
  end
  local kept, texts = redis.call('HMGET', q.results, unpack(names)), redis.call('HMGET', q.states, unpack(ids))
  for n = 1, #ids do
    local ended, text, meant = kept[2 * n - 1], texts[n] or '', tonumber(ARGV[2 * n])
    local asks = tonumber(text:match(' result=([1-9]%d*)') or nil) -- its birth; 1: version 0.1.0 sent it
    local here = asks
    if ended and (not here or here == 1) then
      here = Record.birth_of(q, ids[n], texts[n])
    end
    local its, birth = own_end(ended, kept[2 * n], since, meant, here, text == '' or text:find('^live'))
    left[n] = its and { its, birth } or without_end(q, ids[n], texts[n], meant, asks, here)
  end
  return left
end
