-- Dead letters (or expired messages) back to their queue: the same id, a fresh budget, the history kept. One
-- step for each message, so none is lost or doubled on the way. Returns the ids.
local messages, states, ready, scheduled, expiring = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local history, dead, expired = KEYS[6], KEYS[7], KEYS[8]
local counters, wake, settings, outcomes, leases = KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local part, limit, before, by = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
-- items from ARGV[5]: id; none: the oldest `limit` of those that died before `before`, a time taken when the
-- redrive began, so that what dies again meanwhile is not redriven again
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
-- The only way a message comes to stand somewhere. The new place first, then the state, which is the moment
-- it counts; the caller removes the old place last. Cut off anywhere, it leaves at worst an index entry that
-- the state contradicts, and whoever meets one drops it (I9). waits: for state.due, which alone would not say it:
-- after a step back of the clock a message that was ready may be due in the future.
local function stand(id, state, head, waits)
  local member = member_of(id, head, state.due)
  if state.part == 'dead' then
    redis.call('ZADD', dead, state.due, member)
  elseif state.part == 'expired' then
    redis.call('ZADD', expired, state.due, member)
  elseif waits then
    redis.call('ZADD', scheduled, state.due, member)
  else
    redis.call('ZADD', ready, score_of(head.priority, state.due), member)
  end
  if state.part == 'live' and expiry_of(head, state) then
    redis.call('ZADD', expiring, head.expires, id)
  end
  state.mark = '-'
  redis.call('HSET', states, id, format_state(state))
end
-- The story of a message: a line an event, tab-separated (a cell is a number, a word or JSON, which holds no
-- raw tab or newline). The first 15 lines and the last 15 stay; only the newest keeps its traceback (I6, I13).
--   event  at  delivery  delay  consumer  error  traceback
-- at: now, unless it is told later.
local KEEP = 15

local function remember(id, event, delivery, delay, consumer, failure, at)
  local line = table.concat({ event, at or now, delivery, delay, consumer, failure }, '\t')
  local text = redis.call('HGET', history, id)
  if text then
    local lines = {}
    for old in text:gmatch('[^\n]+') do
      lines[#lines + 1] = old
    end
    if #lines > 0 then
      lines[#lines] = lines[#lines]:gsub('\t[^\t]*$', '\t')
    end
    if #lines >= 2 * KEEP then
      table.remove(lines, KEEP + 1)
    end
    lines[#lines + 1] = line
    line = table.concat(lines, '\n')
  end
  redis.call('HSET', history, id, line)
end
-- That a message expired is said by its state; once it leaves that state, its story has to tell it.
local function remember_expiry(id, state)
  if state.reason == 'expired' then
    remember(id, 'expired', state.deliveries, 0, '', '', state.due)
  end
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
-- One token, never more: it wakes one waiting client, whose claim passes it on where work is left. So no one
-- polls, and a message wakes one client of a thousand.
local function wake_one()
  if redis.call('LLEN', wake) == 0 then
    redis.call('LPUSH', wake, 1)
    redis.call('PEXPIRE', wake, 5000) -- who comes later looks before it waits; so none is left behind (I13)
  end
end
-- The id in a member of an index (see lib/place for what stands before it).
local function id_of(member)
  return member:sub(member:byte(1) < 16 and 9 or 3)
end
-- The messages that an operation on a waiting part of the queue is about: the ids given from ARGV[first] on, or
-- the first `limit` of the index whose score is no higher than `highest`. `visit` gets those that do wait there.
-- Whether a row of an index was left behind by a script that was cut off: a lease holds its message, or it stands at
-- another place, where its state says. The only row of a message counts, whatever a damaged record or state says, so
-- that no damage strands a message where nobody finds it.
local function left_over(index, row, id, state, head)
  if state.mark == '+' and redis.call('ZSCORE', leases, state.token) then
    return true
  end
  local member = member_of(id, head, state.due)
  local places = state.part == 'dead' and { dead } or state.part == 'expired' and { expired } or { ready, scheduled }
  for _, place in ipairs(places) do
    if (place ~= index or member ~= row) and redis.call('ZSCORE', place, member) then
      return true
    end
  end
  return false
end
local function each_chosen(index, first, limit, highest, visit)
  local ids, rows, seen = {}, {}, {}
  if #ARGV >= first then
    for i = first, #ARGV do
      ids[#ids + 1] = ARGV[i]
    end
  else
    rows = redis.call('ZRANGEBYSCORE', index, '-inf', highest, 'LIMIT', 0, limit)
    for n, row in ipairs(rows) do
      ids[n] = id_of(row)
    end
  end
  for n, id in ipairs(ids) do
    local record, text = redis.call('HGET', messages, id), redis.call('HGET', states, id)
    local head = record and read_record(record)
    local state = record and parse_state(text, head.birth)
    local member = rows[n] or state and member_of(id, head, state.due)
    local waits = state and not left_over(index, member, id, state, head)
    if waits and not seen[id] and redis.call('ZSCORE', index, member) then
      seen[id] = true
      visit(id, state, head, member)
    elseif rows[n] then -- left behind by a script that was cut off
      if not record then
        redis.call('HDEL', states, id)
        redis.call('HDEL', history, id)
      end
      redis.call('ZREM', index, member)
    end
  end
end
local source = part == 'dead' and dead or expired
local redriven = {}
each_chosen(source, 5, limit, before, function(id, state, head, member)
  remember_expiry(id, state)
  state.part, state.reason, state.due = 'live', '', now
  state.charged, state.delay, state.redriven = 0, 0, state.redriven + 1
  remember(id, 'redriven', state.deliveries, 0, by, '')
  stand(id, state, head)
  redis.call('ZREM', source, member)
  redis.call('HINCRBY', counters, 'redriven', 1)
  outcome('redriven', id, head, state, 0, { consumer = by })
  redriven[#redriven + 1] = id
end)
if #redriven > 0 then
  wake_one()
end
return redriven
