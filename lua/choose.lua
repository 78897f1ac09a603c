-- The rows that a claim takes from the front of its index, with their ids and states: `c.rows`, `c.ids`, `c.texts`. `c` is
-- the claim (Verbs.claim).
--
-- A message that has lapsed under a worker is a suspect (judge.lua). A worker claims it alone, with a permit, of which
-- a process has one (rq_dlq/worker/claiming.py). A claim without the permit skips suspects, within a thousand rows (I9),
-- and reads only their states. So a suspect that runs long does not hold up the messages behind other suspects (I8). If it
-- finds nothing else, the reply says so, and the consumer waits for the permit, or for the end of one of its calls.
--
-- A dead letter that failed rests. The end of the rest is a field of its state, and its row in `dead` stays where it is: so
-- redrives, purges, lists and retention have nothing to do with rests, and claims look past resting letters.
local PAGE = 100 -- rows that it reads at once, when it skips some

-- Keeps, of a page of rows, those that `may(text)`, up to `most`. Returns whether these are enough, or no more follow.
local function look_at(q, c, from, upto, most, may)
  for first = from, upto, PAGE do
    local rows, ids = redis.call('ZRANGE', c.index, first, math.min(first + PAGE, upto) - 1), {}
    for n, row in ipairs(rows) do
      ids[n] = Order.id_of(row)
    end
    for n, text in ipairs(#ids > 0 and redis.call('HMGET', q.states, unpack(ids)) or {}) do
      local takes, ends = may(text)
      if takes then
        c.rows[#c.rows + 1], c.ids[#c.ids + 1], c.texts[#c.texts + 1] = rows[n], ids[n], text
      end
      if ends or #c.rows == most then
        return
      end
    end
    if #rows < PAGE then
      return
    end
  end
end

-- The rows that a worker's claim may take, at most `most`. A suspect, a message that lapsed before, is taken alone, if it
-- is first and the claim may take it; otherwise skipped, within 1,000 more rows. A spent one is buried (I6): no suspect.
local function skip_suspects(q, c, most)
  look_at(q, c, 0, most + Bounds.ROWS, most, function(text)
    local charged = text and tonumber(text:match(State.LAPSED_BEFORE))
    local suspect = charged and not Judge.is_spent(q, charged)
    local alone = suspect and c.suspects == 'alone'
    return not suspect or alone and #c.rows == 0, alone
  end)
end

-- The first rows of a dead-letter or expiry queue whose messages do not rest, at most `most`. It skips 1,000 resting ones
-- and, if that finds none, as many from a random position. If it finds none, the reply says when the first rest ends.
local function skip_resting(q, c, most)
  local wakes
  local function may(text)
    local ends = tonumber(text and text:match(' rest=(%d+)') or 0)
    if ends > q.now then
      wakes = math.min(wakes or ends, ends)
    end
    return ends <= q.now
  end
  look_at(q, c, 0, most + Bounds.ROWS, most, may)
  local size = redis.call('ZCARD', c.index)
  if #c.rows == 0 and size > most + Bounds.ROWS then
    local from = math.floor(tonumber(q.seed) * size)
    look_at(q, c, from, from + Bounds.ROWS, most, may)
  end
  if #c.rows == 0 and wakes then
    c.reply[2] = wakes - q.now
  end
end

-- The first rows of the index, as many as the claim may lease, without suspects and those that rest. `c.more`: whether
-- others follow; `c.marked`: whether it met such messages, and `c.only_suspects`: no other ones.
function Choose.rows(q, c)
  local most, ids = c.capacity, { nil } -- with room for one id
  local rows = most > 0 and redis.call('ZRANGE', c.index, '0', most) or {} -- and one more, if it exists
  if #rows > most then
    c.more, rows[most + 1] = true, nil
  end
  for n = 1, #rows do
    ids[n] = Order.id_of(rows[n])
  end
  local texts = #ids > 0 and redis.call('HMGET', q.states, unpack(ids)) or {}
  local mark = c.part ~= 'live' and ' rest=' or c.suspects ~= 'all' and State.LAPSED_BEFORE
  local marked, is_live = false, c.part == 'live'
  for n = 1, mark and #texts or 0 do -- a find of plain text is many times cheaper than that of a pattern
    local is_new = is_live and texts[n] and texts[n]:find(State.ASKED, 1, true) == 1
    marked = marked or texts[n] and not is_new and texts[n]:find(mark)
  end
  c.rows, c.ids, c.texts = rows, ids, texts
  if marked then
    c.rows, c.ids, c.texts, c.marked = {}, {}, {}, true
    local skip = c.part == 'live' and skip_suspects or skip_resting
    skip(q, c, most)
    c.only_suspects = #c.rows == 0
  end
end

-- Keeps the rows of messages without a key, or with a seat (Narrow.with_seats). Returns whether these are all; then
-- `c.held`: for each the score of its seat.
local function keep_seated(q, c)
  local held = c.paced and Seats.given(q, c.ids) or redis.call('ZMSCORE', q.seats, unpack(c.ids))
  if c.narrowed then
    held = Narrow.narrow(q, held, c.ids)
  end
  local rows, unseated = c.rows, 0
  for n = 1, #rows do
    local seat = held[n]
    if not seat or c.paced and not seat:find('.', 1, true) then -- Lanes.BY_RATE
      held[n], unseated = false, unseated + (rows[n]:byte() < 16 and 1 or 0) -- with a key, a row has the long form (Order)
    end
    if unseated > Bounds.LANES then -- the rest stays
      c.rows, c.more = { unpack(rows, 1, n - 1) }, true
      c.ids, c.texts = { unpack(c.ids, 1, n - 1) }, { unpack(c.texts, 1, n - 1) }
      break
    end
  end
  c.held = held
  local seated = unseated == 0
  if not seated then
    c.rows, c.ids, c.texts = Narrow.with_seats(q, held, c.rows, c.ids, c.texts)
  end
  return seated
end

-- Keeps the rows that no rule for keys and no closed lane stops. `c.stopped`: whether any was.
function Choose.keep_allowed(q, c)
  if c.per_key and #c.rows > 0 then
    c.stopped = not keep_seated(q, c)
  end
  if c.gated and #c.rows > 0 then
    local before = #c.rows
    c.rows, c.ids, c.texts = Gates.park_closed(q, c.rows, c.ids, c.texts)
    c.stopped = c.stopped or #c.rows < before
  end
end
