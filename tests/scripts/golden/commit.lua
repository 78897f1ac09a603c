-- The end of a session: what it sent and what it acked become so together, in however many queues, or not at all.
-- On a cluster the queues must share a hash tag. Done once: `done` remembers for a while that all is sent, for a call
-- that is repeated because its reply was lost (I12). Returns 1, or 0 and what is not held (queue's number, id, …).
local done = KEYS[1]
-- families from KEYS[2]: messages, states, history, ready, scheduled, expiring, leases, claims, counters, wake, settings, outcomes
-- items from ARGV[1]: acks, id, token; groups, delay, ttl, count, id, payload
-- For each queue the number of its acks and those; then the number of its groups of messages and those, each with
-- its delay and ttl (milliseconds; 0: none) and the number of messages.
local FAMILY, REMEMBERED = 12, 600000 -- keys of a queue; milliseconds, far longer than any call is repeated
-- The server's clock in whole milliseconds, read once a script (I11).
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
-- The immutable half of a message, written once by send:
--   7 bytes  birth: its millisecond * 4096 + its number there; unique among what is sent to a queue
--   1 byte   flags: the priority in the low four bits, 0x10 when an expiry follows, 0x80 for a message that need not
--            outlive its failure (persistent=False), the rest is the sender's
--   6 bytes  expiry in milliseconds, only with that flag
--   …        what the sender packed: headers and body; no script looks into it
local EXPIRES, TRANSIENT = 0x10, 0x80

local function pack_number(value, width)
  local bytes = {}
  for i = width, 1, -1 do
    bytes[i] = value % 256
    value = math.floor(value / 256)
  end
  return string.char(unpack(bytes))
end

-- The births of one call differ in their last bytes only, so the first five are kept.
local packed_high, packed_prefix
local function pack_birth(birth)
  local low = birth % 65536
  local high = (birth - low) / 65536
  if high ~= packed_high then
    packed_high, packed_prefix = high, pack_number(high, 5)
  end
  return packed_prefix .. string.char(math.floor(low / 256), low % 256)
end

local function unpack_number(text, first, width)
  local value = 0
  for i = first, first + width - 1 do
    value = value * 256 + text:byte(i)
  end
  return value
end

local function has_expiry(record)
  return math.floor((record:byte(8) or 0) / EXPIRES) % 2 == 1
end

-- A record that someone else damaged still has to reach the dead-letter queue, so it reads as something.
local function read_record(record)
  if #record < 14 and (#record < 8 or has_expiry(record)) then
    return { birth = 0, priority = 4 }
  end
  return {
    birth = unpack_number(record, 1, 7),
    priority = math.min(record:byte(8) % EXPIRES, 9),
    expires = has_expiry(record) and unpack_number(record, 9, 6) or nil,
    transient = record:byte(8) >= TRANSIENT,
  }
end
-- Where a message stands in a sorted set (I8): priority, then due time, then send order.
-- The score says priority and due time. Ties of the score sort by the bytes of the member, so the member
-- begins with the send order: its number within the millisecond (2 bytes, the first 16 to 31) while the
-- message stands where it was born, since the score says that millisecond already; else 9 - priority and
-- the whole birth (8 bytes, the first 0 to 9).
-- What is scheduled is never due in the millisecond of its birth, which a clock that stepped back could bring about:
-- promote reads the priority from the member.
local BAND = 2 ^ 42

local function score_of(priority, due)
  return (9 - priority) * BAND + due
end

local function member_of(id, head, due)
  local number = head.birth % 4096
  if math.floor(head.birth / 4096) == due then
    return string.char(16 + math.floor(number / 256), number % 256) .. id
  end
  return string.char(9 - head.priority) .. pack_birth(head.birth) .. id
end
-- The fence (I2): only the token that holds a message settles it.
local needle_of, needle
local function holds(token, text)
  if token ~= needle_of then
    needle_of, needle = token, ' +' .. token .. ' '
  end
  return text and text:find(needle, 1, true) ~= nil
end
local sent = redis.call('EXISTS', done) == 1
local at = 1
local function read()
  at = at + 1
  return tonumber(ARGV[at - 1])
end

local function queue(base)
  local messages, states, history, ready = KEYS[base], KEYS[base + 1], KEYS[base + 2], KEYS[base + 3]
  local scheduled, expiring, leases, claims = KEYS[base + 4], KEYS[base + 5], KEYS[base + 6], KEYS[base + 7]
  local counters, wake, settings, outcomes = KEYS[base + 8], KEYS[base + 9], KEYS[base + 10], KEYS[base + 11]
  -- One token, never more: it wakes one waiting client, whose claim passes it on where work is left. So no one
  -- polls, and a message wakes one client of a thousand.
  local function wake_one()
    if redis.call('LLEN', wake) == 0 then
      redis.call('LPUSH', wake, 1)
      redis.call('PEXPIRE', wake, 5000) -- who comes later looks before it waits; so none is left behind (I13)
    end
  end
  -- Adds the items (id, payload, …) from items[first] to items[last]. An id that the queue knows already, in whatever
  -- state, is left as it is (I12). Returns the places (1, 2, …) of the items that were known.
  local function add(items, first, last, delay, ttl)
    local ids, known, seen = {}, {}, {}
    for i = first, last, 2 do
      ids[#ids + 1] = items[i]
    end
    local said = redis.call('HMGET', settings, 'expiry', 'paused')
    local allowed, paused = said[1], said[2] == '1'
    if allowed then
      -- The time to live that a message gets: the sender's, or the queue's default, between the queue's bounds. Applied
      -- once, at send (Artemis' rule: the default is for who has none, and then the bounds do not count).
      --   allowed: "DELAY MIN MAX" in milliseconds, "-" where unset; "never": messages do not expire
      local function allowed_ttl(asked, allowed)
        if allowed == 'never' then
          return 0
        end
        local function span(text) -- what is no time counts as unset
          local value = tonumber(text and text:match('^%d+$') or nil)
          return value and value > 0 and value <= 315360000000 and value or nil -- ten years
        end
        local default, least, most = allowed:match('^(%S+) (%S+) (%S+)$')
        default, least, most = span(default), span(least), span(most)
        if default then
          return asked > 0 and asked or default
        elseif asked == 0 then
          return most or least or 0
        end
        return math.min(math.max(asked, least or asked), most or math.huge)
      end
      ttl = allowed_ttl(ttl, allowed)
    end
    local birth = math.max(now * 4096, (tonumber(redis.call('HGET', counters, 'birth')) or 0) + 1)
    local existing = redis.call('HMGET', messages, unpack(ids))
    local records, places, stated, deadlines = {}, {}, {}, {}
    local placed, place
    for n, id in ipairs(ids) do
      if existing[n] or seen[id] then
        known[#known + 1] = n
      else
        local payload = items[first + 2 * n - 1]
        local head = { birth = birth, priority = payload:byte(1) % EXPIRES }
        local born = math.floor(birth / 4096)
        local due = delay == 0 and born or now + delay ~= born and now + delay or born + 1 -- see lib/place
        if ttl > 0 then
          payload = string.char(payload:byte(1) + EXPIRES) .. pack_number(now + ttl, 6) .. payload:sub(2)
          deadlines[#deadlines + 1] = now + ttl
          deadlines[#deadlines + 1] = id
        end
        if delay > 0 then
          stated[#stated + 1] = id
          stated[#stated + 1] = 'live - ' .. due .. ' 0 0 0 0 0 0 0'
        end
        records[#records + 1] = id
        records[#records + 1] = pack_birth(birth) .. payload
        local score = delay > 0 and due or score_of(head.priority, due)
        if score ~= placed then -- a number is turned into text by Redis, which costs more than the rest
          placed, place = score, string.format('%.0f', score)
        end
        places[#places + 1] = place
        places[#places + 1] = member_of(id, head, due)
        seen[id], birth = true, birth + 1
      end
    end
    if #records > 0 then
      redis.call('HSET', counters, 'birth', string.format('%.0f', birth - 1))
      redis.call('ZADD', delay > 0 and scheduled or ready, unpack(places))
      if delay > 0 then
        redis.call('HSET', states, unpack(stated))
      end
      if ttl > 0 then
        redis.call('ZADD', expiring, unpack(deadlines))
      end
      redis.call('HSET', messages, unpack(records)) -- from here on they are sent
      redis.call('HINCRBY', counters, 'sent', #records / 2)
      if not paused and (delay == 0 or redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2] == places[1]) then
        wake_one()
      end
    end
    return known
  end
  -- The messages that were acked are gone, and with them everything that was kept about them (I13).
  local function remove_acked(ids)
    local noted, records, texts = redis.call('HGET', settings, 'outcomes'), nil, nil
    if noted then
      records, texts = redis.call('HMGET', messages, unpack(ids)), redis.call('HMGET', states, unpack(ids))
    end
    redis.call('HDEL', messages, unpack(ids)) -- from here on they are acked
    redis.call('HDEL', history, unpack(ids))
    redis.call('HDEL', states, unpack(ids)) -- the last: by it a sweep knows an ack that was cut off
    redis.call('HINCRBY', counters, 'acked', #ids)
    if noted then
      -- Notes what was acked in the outcome history, by the records and the states that there were. Statements, as in
      -- lib/take: only a queue that keeps outcomes needs them.
      -- The server's clock in whole milliseconds, read once a script (I11).
      local clock = redis.call('TIME')
      local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
      -- The immutable half of a message, written once by send:
      --   7 bytes  birth: its millisecond * 4096 + its number there; unique among what is sent to a queue
      --   1 byte   flags: the priority in the low four bits, 0x10 when an expiry follows, 0x80 for a message that need not
      --            outlive its failure (persistent=False), the rest is the sender's
      --   6 bytes  expiry in milliseconds, only with that flag
      --   …        what the sender packed: headers and body; no script looks into it
      local EXPIRES, TRANSIENT = 0x10, 0x80

      local function pack_number(value, width)
        local bytes = {}
        for i = width, 1, -1 do
          bytes[i] = value % 256
          value = math.floor(value / 256)
        end
        return string.char(unpack(bytes))
      end

      -- The births of one call differ in their last bytes only, so the first five are kept.
      local packed_high, packed_prefix
      local function pack_birth(birth)
        local low = birth % 65536
        local high = (birth - low) / 65536
        if high ~= packed_high then
          packed_high, packed_prefix = high, pack_number(high, 5)
        end
        return packed_prefix .. string.char(math.floor(low / 256), low % 256)
      end

      local function unpack_number(text, first, width)
        local value = 0
        for i = first, first + width - 1 do
          value = value * 256 + text:byte(i)
        end
        return value
      end

      local function has_expiry(record)
        return math.floor((record:byte(8) or 0) / EXPIRES) % 2 == 1
      end

      -- A record that someone else damaged still has to reach the dead-letter queue, so it reads as something.
      local function read_record(record)
        if #record < 14 and (#record < 8 or has_expiry(record)) then
          return { birth = 0, priority = 4 }
        end
        return {
          birth = unpack_number(record, 1, 7),
          priority = math.min(record:byte(8) % EXPIRES, 9),
          expires = has_expiry(record) and unpack_number(record, 9, 6) or nil,
          transient = record:byte(8) >= TRANSIENT,
        }
      end
      -- The mutable half of a message: one line of text, and the truth about where the message is (the sorted
      -- sets are indexes of it). Absent until someone claims or delays the message.
      --   part[/reason] (+|-)token due deliveries charged nacked lapsed released redriven delay
      -- part: live, dead or expired; +token holds it, -token held it last (so that a repeated call is known, I12);
      -- due: its time to be ready, or of its death, 0: when it was born; delay: the last redelivery's, milliseconds.
      local STATE = '^(%a+)/?(%a*) ([+-])(%S*) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$'
      local LATER = 2 ^ 42 -- milliseconds: a time that no place has room for (lib/place), so it is a stranger's word

      local function new_state(due)
        return {
          part = 'live', reason = '', mark = '-', token = '', due = due, delay = 0,
          deliveries = 0, charged = 0, nacked = 0, lapsed = 0, released = 0, redriven = 0,
        }
      end

      local function parse_state(text, birth)
        local s = new_state(math.floor(birth / 4096))
        local part, reason, mark, token, due, deliveries, charged, nacked, lapsed, released, redriven, delay
        if text then
          part, reason, mark, token, due, deliveries, charged, nacked, lapsed, released, redriven, delay =
            text:match(STATE)
        end
        if part then
          s.part, s.reason, s.mark, s.token = part, reason, mark, token
          local at = tonumber(due)
          s.due = at > 0 and at < LATER and at or s.due
          s.deliveries, s.charged, s.nacked = tonumber(deliveries), tonumber(charged), tonumber(nacked)
          s.lapsed, s.released, s.redriven = tonumber(lapsed), tonumber(released), tonumber(redriven)
          s.delay = tonumber(delay)
        end
        return s
      end

      local function format_state(s)
        local part = s.reason == '' and s.part or s.part .. '/' .. s.reason
        return table.concat({
          part, s.mark .. s.token, s.due, s.deliveries, s.charged, s.nacked, s.lapsed, s.released, s.redriven, s.delay,
        }, ' ')
      end

      -- A death ends the time to live: what was redriven does not expire again.
      local function expiry_of(head, state)
        return state.redriven == 0 and head.expires or nil
      end
      -- The outcome history, for who looks later what became of deliveries and messages: an entry an event, in a stream that
      -- keeps about as many as the queue's settings say, and none where they say nothing. Noted after it has happened; what
      -- cannot be noted stops nothing. The fields are the same in every entry, so that Redis stores their names once.
      --   attempt: deliveries so far; age, delay: milliseconds, since it was sent and until it comes back
      --   told: { cause, consumer, error }, what there is of them, the last two as in lib/history
      -- A setting that is JSON, as a table; an empty one where it cannot be read, which must not stop the queue.
      local function read_json(text)
        local decoded, value = pcall(cjson.decode, text or '')
        return decoded and type(value) == 'table' and value or {}
      end
      -- What the queue's settings say, read once a script; false where they say nothing.
      local FIELDS, found = { redelivery = 1, dead_letter = 2, outcomes = 3 }, nil
      local function setting(name)
        found = found or redis.call('HMGET', settings, 'redelivery', 'dead_letter', 'outcomes')
        return found[FIELDS[name]]
      end
      local names = {} -- of consumers, by their JSON
      local function outcome(event, id, head, state, delay, told)
        local kept = setting('outcomes')
        if not kept then
          return
        end
        told = told or {}
        local age = math.max(now - math.floor(head.birth / 4096), 0)
        local consumer, failure = told.consumer or '""', told.error and read_json(told.error:match('^[^\t]*')) or {}
        names[consumer] = names[consumer] or read_json('[' .. consumer .. ']')[1] or ''
        redis.pcall(
          'XADD', outcomes, 'MAXLEN', '~', kept, '*', 'id', id, 'event', event, 'attempt', state.deliveries,
          'age', string.format('%.0f', age), 'delay', string.format('%.0f', delay), 'consumer', names[consumer],
          'error', failure.type or '', 'fingerprint', failure.fingerprint or '',
          'reason', state.reason, 'cause', told.cause or ''
        )
      end
      -- Who was given the messages of a claim, as a JSON text.
      local holders = {}
      local function holder(token)
        holders[token] = holders[token] or (redis.call('HGET', claims, token) or ''):match('^[^\n]*')
        return holders[token]
      end
      for n, id in ipairs(ids) do
        if records[n] then -- else an ack was cut off
          local head = read_record(records[n])
          local state = parse_state(texts[n], head.birth)
          outcome('acked', id, head, state, 0, { consumer = holder(state.token) })
        end
      end
    end
  end
  -- The lease goes with the last message of its claim.
  local function let_go(token, count)
    if redis.call('HINCRBY', claims, token .. ':held', -count) <= 0 then
      redis.call('HDEL', claims, token, token .. ':held', token .. ':begun')
      redis.call('ZREM', leases, token) -- the last: by it a sweep finds what was cut off
    end
  end
  return { states = states, add = add, remove_acked = remove_acked, let_go = let_go, ids = {}, held = {}, groups = {} }
end

local queues, lost = {}, { 0 }
for n = 1, (#KEYS - 1) / FAMILY do
  local q, seen = queue(2 + (n - 1) * FAMILY), {}
  for _ = 1, read() do
    local id, token = ARGV[at], ARGV[at + 1]
    at = at + 2
    local held = holds(token, redis.call('HGET', q.states, id))
    if held and not seen[id] then -- an item may be there twice
      q.ids[#q.ids + 1], q.held[token], seen[id] = id, (q.held[token] or 0) + 1, true
    elseif not held and not sent then
      lost[#lost + 1], lost[#lost + 2] = n, id
    end
  end
  for g = 1, read() do
    q.groups[g] = { delay = read(), ttl = read(), size = read(), first = at }
    at = at + 2 * q.groups[g].size
  end
  queues[n] = q
end
if #lost > 1 then
  return lost
end
for _, q in ipairs(sent and {} or queues) do
  for _, group in ipairs(q.groups) do
    q.add(ARGV, group.first, group.first + 2 * group.size - 1, group.delay, group.ttl)
  end
end
redis.call('SET', done, 1, 'PX', REMEMBERED) -- cut off before, a repetition sends the rest; after, it acks the rest
for _, q in ipairs(queues) do
  if #q.ids > 0 then
    q.remove_acked(q.ids)
    for token, count in pairs(q.held) do
      q.let_go(token, count)
    end
  end
end
return { 1 }
