-- Messages are added to a queue: packed to records, with births, and written.
local EXPIRES, LONG = Record.EXPIRES, Record.LONG
local FIELDS, ABOVE = 0x20, 0x40 -- the flag of fields and headers in a payload, and the next
local LAST = 2 -- the last field of Record.lanes_in

-- The time to live of a message: the sender's, or the queue's default, within the queue's bounds. Applied once, at send. As
-- in Artemis, a default is for messages without one, and then the bounds do not apply.
--   allowed: "DELAY MIN MAX" in milliseconds, "-" where unset; "never": messages do not expire
local function allowed_ttl(asked, allowed)
  if allowed == 'never' then
    return 0
  end
  local default, least, most = allowed:match('^(%S+) (%S+) (%S+)$')
  default, least, most = Values.span(default), Values.span(least), Values.span(most)
  if default then
    return asked > 0 and asked or default
  elseif asked == 0 then
    return most or least or 0
  end
  return math.min(math.max(asked, least or asked), most or math.huge)
end

-- Whether the result of a message is asked for by its sender.
--   payload: as it was sent, with fields: its flags, then the length of a part whose fields are in the order of their
--   numbers
local function asks_result(payload)
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

local function lane_in(payload)
  return payload:byte(1) % ABOVE >= FIELDS and Record.lanes_in(payload, 2) or nil
end

-- The place of a message, its birth, and whether it has the key that the payload has.
local function place_of(q, id, payload)
  local text = redis.call('HGET', q.states, id)
  local head, later = Record.head_of(q, id, text)
  if later then
    return text and text:find(' %+%S+ ') and 'leased' or 'later', 0, true
  end
  local state, has_key = State.parse(text, head.birth), head.lane == lane_in(payload)
  if state.mark == '+' then
    return 'leased', head.birth, has_key
  elseif state.part ~= 'live' then
    return state.part, head.birth, has_key
  end
  local waits = redis.call('ZSCORE', q.scheduled, Order.member_of(id, head, state.due))
  return waits and 'scheduled' or 'ready', head.birth, has_key
end

-- The items that a send found known, each with the name of its message's place: ready, scheduled, leased, dead, expired or
-- acked; 'later' if only a later version can tell; then '/' and its birth, 0: unknown; then '/key' if the message has
-- another key than the item. Those that dead letters block are counted.
--   items: id, payload, … from `first` on; existing: as in Send.add; false: an earlier item of this call has the id, and is
--   written
local function with_places(q, known, items, first, existing)
  local placed, blocked = {}, 0
  for at, n in ipairs(known) do
    local place, birth, has_key = 'acked', tonumber(existing[n]) or 0, true
    if existing[n] ~= true and type(existing[n]) ~= 'number' then
      place, birth, has_key = place_of(q, items[first + 2 * n - 2], items[first + 2 * n - 1])
    end
    placed[2 * at - 1], placed[2 * at] = n, place .. string.format('/%.0f', birth) .. (has_key and '' or '/key')
    blocked = blocked + (place == 'dead' and 1 or 0)
  end
  if blocked > 0 then
    redis.call('HINCRBY', q.counters, 'known', blocked)
  end
  return placed
end

-- How many messages of a lane may be sent to `ready`.
local function room_of(q, lane)
  if q.somebody_waits == nil then
    if Upkeep.promote_due(q) > 0 then -- one that was delayed, and is due by now, is in front of those that are sent
      Queue.wake(q)
    end
    q.somebody_waits = redis.call('ZCOUNT', q.scheduled, Lanes.BLOCKED, '+inf') > 0
  end
  local score = Values.digits(Lanes.BLOCKED + lane)
  if q.somebody_waits and redis.call('ZCOUNT', q.scheduled, score, score) > 0 then
    return 0
  end
  return Seats.free_seats(q, lane)
end

-- Gives a new message with a key a seat of its lane, as in Seats.enter. Returns the score in `scheduled` of one that gets
-- none; false: it gets one, or has one since a send was cut off.
local function blocked_at(q, batch, id, payload)
  local lane = Record.lanes_in(payload, 2)
  if not lane or q.rule.limit == math.huge then
    return false
  end
  local rooms, seats = batch.rooms, batch.seats
  local room = rooms[lane] or room_of(q, lane)
  rooms[lane] = math.max(room - 1, 0)
  if room > 0 then
    seats[#seats + 1], seats[#seats + 2] = Seats.seat_in(q, lane), id
    return false
  end
  return not redis.call('ZSCORE', q.seats, id) and Values.digits(Lanes.BLOCKED + lane)
end

-- The first of as many births as may be needed.
local function first_birth(q, count)
  local drawn = redis.pcall('HINCRBY', q.counters, 'birth', count)
  local birth = type(drawn) == 'number' and drawn - count + 1 or 0 -- otherwise it is damaged
  if birth < q.now * 4096 then
    birth = q.now * 4096
    redis.call('HSET', q.counters, 'birth', Values.digits(birth + count - 1))
  end
  return birth
end

-- What messages have in common whose births differ in the last byte alone: when they are due; the score of their rows; the
-- beginnings of their records and of their rows.
local function common(q, birth, priority, delay)
  local born, at = (birth - birth % 4096) / 4096, q.now + delay -- a delayed message is never due then (Order)
  local due = delay == 0 and born or at ~= born and at or born + 1
  local score = Values.digits(delay > 0 and due or Order.score_of(priority, due)) -- Redis would print it each time
  return due, score, Values.packed((birth - birth % 256) / 256, 6), Order.order_of(birth, priority, due)
end

-- Adds the row of a message with a key or a dependency, whose order has the long form (Order).
local function add_row(q, batch, id, payload, score, row)
  local blocked = batch.rooms and blocked_at(q, batch, id, payload)
  local rows = blocked and batch.blocked or batch.rows
  rows[#rows + 1], rows[#rows + 2] = blocked or score, row
end

-- Adds the state of a message that needs one: it is delayed, or long, or its result is asked for.
--   asked: the birth, if it is; otherwise false
local function add_state(batch, id, due, record, asked)
  batch.states = batch.states or {}
  local states, word = batch.states, #record > LONG and Record.word(record) or ''
  word = word .. (asked and ' result=' .. Values.digits(asked) or '')
  states[#states + 1], states[#states + 2] = id, 'live - ' .. due .. ' 0 0 0 0 0 0 0' .. word
end

-- Packs the new ones of these items, and gives them births: `batch` gets their rows and records. Returns the numbers of
-- those that are known, and the birth after the last; nil: none is new.
--   existing, ended: as in Send.add
local function pack(q, batch, ids, items, first, existing, ended)
  local delay, expiry, records, rows = batch.delay, batch.expiry, batch.records, batch.rows
  local known, seen, size = {}, #ids > 1 and {}, 0
  local birth, priority, due, score, lead, order
  for n = 1, #ids do
    local id = ids[n]
    if existing[n] or seen and seen[id] then
      known[#known + 1] = n
    else
      birth = birth or first_birth(q, #ids)
      local payload, low = items[first + 2 * n - 1], birth % 256
      local flags = payload:byte(1)
      if low == 0 or flags % EXPIRES ~= priority then
        priority = flags % EXPIRES
        due, score, lead, order = common(q, birth, priority, delay)
      end
      local has_fields, last = flags % ABOVE >= FIELDS, string.char(low)
      local asks = batch.all_asked or ended and ended[n] or has_fields and asks_result(payload)
      if has_fields and (payload:byte(4) or ABOVE) <= LAST then
        add_row(q, batch, id, payload, score, string.char(9 - priority) .. lead .. last .. id)
      else
        rows[#rows + 1], rows[#rows + 2] = score, order .. last .. id
      end
      if expiry then
        payload = string.char(flags + EXPIRES) .. expiry .. payload:sub(2)
      end
      local record = lead .. last .. payload
      if delay > 0 or asks or #record > LONG then
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
    redis.call('ZADD', q.seats, unpack(batch.seats))
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
  if batch.expiry then
    local deadlines, ends = {}, Values.digits(batch.expires)
    for n = 1, #records, 2 do
      deadlines[n], deadlines[n + 1] = ends, records[n]
    end
    redis.call('ZADD', q.expiring, unpack(deadlines))
  end
  redis.call('HSET', q.messages, unpack(records)) -- from here on they are sent
  redis.call('HINCRBY', q.counters, 'sent', #records / 2)
  if not paused and rows[1] and (delay == 0 or redis.call('ZRANGE', q.scheduled, 0, 0, 'WITHSCORES')[2] == rows[1]) then
    Queue.wake(q)
  end
end

-- Adds items to the queue, items[first] to items[last] (id, payload, …). An id that the queue knows, in any state or of an
-- earlier message, is left as it is (I12): returns these, as `with_places` does; and the birth of the first new one, which
-- the others follow one by one, 0: none is new. nil: the queue was deleted since the client opened it, and nothing was
-- done.
--   opening: the client's; empty: any
function Send.add(q, items, first, last, delay, ttl, opening)
  local ids = {}
  for n = 1, (last - first + 1) / 2 do
    ids[n] = items[first + 2 * n - 2]
  end
  local set = redis.call('HMGET', q.settings, 'expiry', 'paused', 'dedup_window', 'opening', 'per_key', 'results')
  if opening ~= '' and opening ~= set[4] then
    return nil
  end
  ttl = set[1] and allowed_ttl(ttl, set[1]) or ttl
  local existing = redis.call('HMGET', q.messages, unpack(ids))
  -- existing: for each id the record that the queue has; the birth of an earlier message whose ack is kept as its outcome;
  -- or true if it was acked within the dedup_window. ended: n → true, where another outcome of an earlier message is kept.
  local ended = redis.call('EXISTS', q.results) == 1 and Results.recall(q, ids, existing, set[6])
  if set[3] then
    Acks.recall(q, ids, existing, set[3])
  end
  local batch = { delay = delay, records = {}, rows = {} }
  if set[6] and set[6]:find('^[1-9]%d*$') then
    batch.all_asked = true
  end
  if ttl > 0 then
    batch.expires, batch.expiry = q.now + ttl, Values.packed(q.now + ttl, 6)
  end
  if delay == 0 and set[5] then
    batch.rooms, batch.seats, batch.blocked = {}, {}, {} -- rooms: lane → free seats
  end
  local known, birth = pack(q, batch, ids, items, first, existing, ended)
  if batch.records[1] then
    write(q, batch, set[2] == '1')
  end
  local first_birth = birth and birth - #batch.records / 2 or 0
  return known[1] and with_places(q, known, items, first, existing) or known, first_birth
end

-- Adds messages to the queue. Returns the birth of the first new one, which the others follow one by one, 0: none is new;
-- then for each item whose id the queue knows its number, 1 is the first, and the place of that message (`with_places`). -1
-- if the queue was deleted since the client opened it: then nothing was done.
function Verbs.send(q, ARGV)
  local number, delay, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]) -- milliseconds; ttl 0: none
  local opening = ARGV[4]
  -- items from ARGV[5]: id, payload (its first byte the flags, without the expiry's)
  local done, noted = Register.done_before(q, number)
  if done then
    return Register.known_before(noted)
  end
  local known, birth = Send.add(q, ARGV, 5, #ARGV, delay, ttl, opening)
  if not known then
    return -1
  end
  local count = #known / 2
  table.insert(known, 1, Values.digits(birth))
  Register.note_done(q, number, count, table.concat(known, ' ') .. ' ')
  known[1] = birth
  return known
end
