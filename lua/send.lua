-- Messages are added to a queue: packed to records, with births, and written.
local EXPIRES, FIELDS, LONG = Record.EXPIRES, Record.FIELDS, Record.LONG
local ABOVE = 0x40 -- the flag after FIELDS
local LAST = 2 -- the last field of Record.lanes_in

-- Whether the result of a message is asked for by its sender.
--   payload: with fields: its flags, then the length of its fields, which are in the order of their numbers
function Send.asks_result(payload)
  local at, stop = 4, 4 + (payload:byte(2) or 0) * 256 + (payload:byte(3) or 0)
  while at < stop do
    local field, high, length = payload:byte(at, at + 2)
    if field >= 3 or not length then
      return field == 3 -- rq_dlq/values/record.py
    end
    at = at + 3 + high * 256 + length
  end
  return false
end

-- How many messages of a lane may be sent to `ready`, and the name of the lane.
local function room_of(q, lane)
  if q.somebody_waits == nil then
    if Upkeep.promote_due(q) > 0 then -- one that was delayed, and is due by now, is in front of those that are sent
      Queue.wake(q)
    end
    q.somebody_waits = redis.call('ZCOUNT', q.scheduled, Lanes.BLOCKED, '+inf') > 0
  end
  local score = q.somebody_waits and Values.digits(Lanes.BLOCKED + lane)
  if score and redis.call('ZCOUNT', q.scheduled, score, score) > 0 then
    return 0
  end
  local name = Values.digits(lane)
  return Seats.free_seats(q, name), name
end

-- Gives a new message with a key a seat of its lane, as in Seats.enter. Returns the score in `scheduled` of one that gets
-- none; false: it gets one, or has one since a send was cut off.
local function blocked_at(q, batch, id, lane)
  if q.rule.limit == math.huge then
    return false
  end
  local rooms, seats = batch.rooms, batch.seats
  local room, name = rooms[lane], nil
  if not room then
    room, name = room_of(q, lane)
  end
  rooms[lane] = room > 0 and room - 1 or 0
  if room > 0 then
    seats[#seats + 1], seats[#seats + 2] = Seats.seat_in(q, name or Values.digits(lane)), id
    return false
  end
  return not redis.call('ZSCORE', q.seats, id) and Values.digits(Lanes.BLOCKED + lane)
end

-- The first of as many births as may be needed.
function Send.first_birth(q, count)
  local drawn = redis.pcall('HINCRBY', q.counters, 'birth', Values.count(count))
  local birth = type(drawn) == 'number' and drawn - count + 1 or 0 -- otherwise it is damaged
  if birth < q.now * 4096 then
    birth = q.now * 4096
    redis.call('HSET', q.counters, 'birth', Values.digits(birth + count - 1))
  end
  return birth
end

-- What messages have in common whose births differ in the last byte alone: when they are due; the score of their rows, as
-- text; the beginnings of their records and of their rows.
local function common(q, birth, priority, delay)
  local born, at = (birth - birth % 4096) / 4096, q.now + delay -- a delayed message is never due then (Order)
  local due = delay == 0 and born or at ~= born and at or born + 1
  local score = Values.digits(delay > 0 and due or Order.score_of(priority, due)) -- Redis would print it each time
  return due, score, Values.packed((birth - birth % 256) / 256, 6), Order.order_of(birth, priority, due)
end

-- Adds the row of a message with a key or a dependency, in the long form (Order). A sender with another hash is noted: keys
-- that it took for different could share a lane, and its own reads would look for other lanes.
local function add_row(q, batch, id, payload, score, row)
  local lane, needs, said_lane, said_needs = Record.lanes_in(payload, 2)
  batch.is_wrong = batch.is_wrong or lane ~= said_lane or needs ~= said_needs
  local blocked = batch.rooms and lane and blocked_at(q, batch, id, lane)
  local rows = blocked and batch.blocked or batch.rows
  rows[#rows + 1], rows[#rows + 2] = blocked or score, row
end

-- Adds the state of a message that needs one: it is delayed, long, of a gather, or `asked` is the birth, not false.
local function add_state(batch, id, due, record, asked)
  batch.states = batch.states or {}
  local states, word = batch.states, asked and ' result=' .. Values.digits(asked) or ''
  word = #record > LONG and Record.word(record) .. word or word
  states[#states + 1], states[#states + 2] = id, 'live - ' .. due .. ' 0 0 0 0 0 0 0'
    .. (batch.gather and Gathers.joined(word, batch.gather) or word)
end

-- Packs the new ones of these items: `batch` gets their rows and records. Returns the numbers of those that are known, nil:
-- none is; and the birth after the last, nil: none is new.
--   existing, ended: as Send.existing returns them
local function pack(q, batch, ids, items, first, existing, ended)
  local delay, records, rows = batch.delay, batch.records, batch.rows
  local expiry = batch.expires and Values.packed(batch.expires, 6)
  local known, seen, size = nil, #ids > 1 and {}, 0
  local birth, priority, due, score, lead, order
  for n = 1, #ids do
    local id = ids[n]
    if existing[n] or seen and seen[id] then
      known = known or {}
      known[#known + 1] = n
    else
      birth = birth or Send.first_birth(q, #ids)
      local payload, low = items[first + 2 * n - 1], birth % 256
      local flags = payload:byte(1)
      if low == 0 or flags % EXPIRES ~= priority then
        priority = flags % EXPIRES
        due, score, lead, order = common(q, birth, priority, delay)
      end
      local has_fields, last = flags % ABOVE >= FIELDS, string.char(low)
      local asks = batch.all_asked or ended and ended[n] or has_fields and Send.asks_result(payload)
      if has_fields and (payload:byte(4) or ABOVE) <= LAST then
        add_row(q, batch, id, payload, score, string.char(9 - priority) .. lead .. last .. id)
      else
        rows[#rows + 1], rows[#rows + 2] = score, order .. last .. id
      end
      if expiry then
        payload = string.char(flags + EXPIRES) .. expiry .. payload:sub(2)
      end
      local record = lead .. last .. payload
      if delay > 0 or asks or #record > LONG or batch.gather then
        add_state(batch, id, delay > 0 and due or 0, record, asks and birth)
      end
      records[size + 1], records[size + 2] = id, record
      size, birth = size + 2, birth + 1
      if seen then seen[id] = true end
    end
  end
  return known, birth
end

-- Writes what was packed: the rows, then the records.
local function write(q, batch, paused)
  local rows, records, delay = batch.rows, batch.records, batch.delay
  if batch.rooms and batch.seats[1] then
    Lanes.add(q.seats, batch.seats)
  end
  if rows[1] then
    redis.call('ZADD', delay > 0 and q.scheduled or q.ready, unpack(rows))
  end
  if batch.rooms and batch.blocked[1] then
    redis.call('ZADD', q.scheduled, unpack(batch.blocked))
  end
  if batch.states then
    redis.call('HSET', q.states, unpack(batch.states))
  end
  if batch.expires then
    local deadlines, ends = {}, Values.digits(batch.expires)
    for n = 1, #records, 2 do
      deadlines[n], deadlines[n + 1] = ends, records[n]
    end
    redis.call('ZADD', q.expiring, unpack(deadlines))
  end
  redis.call('HSET', q.messages, unpack(records)) -- from here on they are sent
  redis.call('HINCRBY', q.counters, 'sent', Values.count(#records / 2))
  if not paused and rows[1] and (delay == 0 or redis.call('ZRANGE', q.scheduled, 0, 0, 'WITHSCORES')[2] == rows[1]) then
    Queue.wake(q)
  end
end

-- What the queue knows of ids: for each the record that it has; the birth of an earlier message whose ack is kept as its
-- outcome; or true if it was acked within the dedup_window. Then n → true, where another outcome of one is kept.
--   dedup_window, results, kept: settings
function Send.existing(q, ids, dedup_window, results, kept)
  local existing = redis.call('HMGET', q.messages, unpack(ids))
  local ended = kept and Results.recall(q, ids, existing, results)
  if dedup_window then
    Acks.recall(q, ids, existing, dedup_window)
  end
  return existing, ended
end

-- Adds items to the queue, items[first] to items[last] (id, payload, …). An id that the queue knows, in any state or of an
-- earlier message, is left as it is (I12). Returns the birth of the first new one, which the others follow one by one, 0:
-- none is new; then the known ones (Known.add). Or nothing was sent: nil and the refusal.
--   delay, ttl: milliseconds from now, 0: none; or, below 0, a time. One in the past is due at once; what expires then does
--   so at once, unless the caller refuses it (Ttl.is_past)
--   opening: the client's; empty: any. DELETED: the queue was deleted since the client opened it
--   lanes: WRONG_LANE if a lane is not that of its key or its dependency
--   over: Length.over, or a function like it, which returns a refusal; nil: the limit of the queue does not count
--   gather: of the messages; nil: they are of none
function Send.add(q, items, first, last, delay, ttl, opening, lanes, over, gather)
  local ids = { nil } -- tables begin with room for one message
  for n = 1, (last - first + 1) / 2 do
    ids[n] = items[first + 2 * n - 2]
  end
  local set = redis.call(
    'HMGET', q.settings, 'expiry', 'paused', 'dedup_window', 'opening', 'per_key', 'results', 'kept', 'max_length'
  )
  if opening ~= '' and opening ~= set[4] then
    return nil, Reply.DELETED
  end
  if set[1] or delay < 0 or ttl < 0 then
    delay, ttl = Ttl.spans(q, delay, ttl, set[1])
  end
  local existing, ended = Send.existing(q, ids, set[3], set[6], set[7])
  local all_asked = set[6] and set[6]:find('^[1-9]%d*$')
  local batch = { delay = delay, records = { nil, nil }, rows = { nil, nil }, gather = gather, all_asked = all_asked }
  if ttl > 0 then -- `then` may wait for others until it is due
    batch.expires = q.now + math.floor(ttl) + (gather == Gathers.THEN and delay or 0)
  end
  if delay == 0 and set[5] then
    batch.rooms, batch.seats, batch.blocked = {}, {}, {} -- rooms: lane → free seats
  end
  local known, birth = pack(q, batch, ids, items, first, existing, ended)
  local refusal = lanes and batch.is_wrong and Reply.WRONG_LANE or over and set[8] and over(q, set[8], #batch.records / 2)
  if refusal then
    return nil, refusal
  elseif batch.records[1] then
    write(q, batch, set[2] == '1')
  end
  local reply = { birth and birth - #batch.records / 2 or 0 }
  return known and Known.add(q, reply, known, items, first, existing) or reply
end

-- The reply of a send that was done before, from the note of it: the bytes of the birth, then the known ones. The note is
-- of a later call, if this one arrives late: no caller reads that reply.
function Send.reply_before(noted)
  local birth, rest = noted:match('^%d+ (.......)( .*)$')
  local reply = Register.known_before(rest or '')
  table.insert(reply, 1, birth and Record.birth_in(birth) or 0)
  return reply
end

-- Notes a send as done.
--   reply: of Send.add
function Send.note_done(q, number, reply, stays)
  local more = Values.packed(reply[1], 7) .. ' ' -- in a third of the time that digits take
  more = reply[2] and more .. table.concat(reply, ' ', 2) .. ' ' or more
  Register.note_done(q, number, reply[2] and (#reply - 1) / 2 or '0', more, stays)
end

-- The refusal of new messages by a queue that has a limit.
local function limited(_, limit, more)
  return more > 0 and limit:find('^[1-9]%d*$') and Reply.LIMITED
end

-- Adds messages to the queue. Returns the birth of the first new one, which the others follow one by one, 0: none is new;
-- then for each item whose id the queue knows its number, 1 is the first, and the place of that message (Known.add). Or
-- nothing was sent: DELETED, WRONG_LANE, PAST: they would have expired; or LIMITED: `send_limited` is the verb.
function Verbs.send(q, ARGV)
  local number, delay, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]) -- as in Send.add
  local opening = ARGV[4]
  local stays = ARGV[5] == '1' -- the register of the sender does so for ten years, and nothing is refused: it was accepted
  -- items from ARGV[6]: id, payload (its first byte the flags, without the expiry's)
  local done, noted = Register.done_before(q, number)
  if done then
    return Send.reply_before(noted)
  end
  q.now = Clock.read() -- sooner than it is first asked for, which would take longer
  if Ttl.is_past(q, ttl) and not stays then
    return Reply.PAST
  end
  local first = stays and Register.first_left(ARGV, noted) or Register.ITEMS
  local reply, refusal = Send.add(q, ARGV, first, #ARGV, delay, ttl, opening, true, limited)
  if not reply then
    return refusal
  end
  Send.note_done(q, number, reply, stays)
  return first > Register.ITEMS and Register.numbered(reply, first) or reply
end
