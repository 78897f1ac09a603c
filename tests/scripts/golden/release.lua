-- Given back unseen or unfairly: not charged, due now, at its old place (I8).
local messages, states, ready, scheduled, expiring = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local leases, claims, history, dead, expired = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local counters, wake, settings, outcomes = KEYS[11], KEYS[12], KEYS[13], KEYS[14]
-- items from ARGV[1]: id, token
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
-- The fence (I2): only the token that holds a message settles it.
local needle_of, needle
local function holds(token, text)
  if token ~= needle_of then
    needle_of, needle = token, ' +' .. token .. ' '
  end
  return text and text:find(needle, 1, true) ~= nil
end
-- What to say of a message that the caller's token does not hold. A token that settled it before is known, so
-- that a call whose reply was lost can be repeated (I12).
local SETTLED, SETTLED_BEFORE, LOST, GONE = 1, 2, 0, -1

local function refusal(id, token, text)
  if text and text:find(' -' .. token .. ' ', 1, true) then
    return SETTLED_BEFORE
  end
  return redis.call('HEXISTS', messages, id) == 1 and LOST or GONE
end
-- The lease goes with the last message of its claim.
local function let_go(token, count)
  if redis.call('HINCRBY', claims, token .. ':held', -count) <= 0 then
    redis.call('HDEL', claims, token, token .. ':held', token .. ':begun')
    redis.call('ZREM', leases, token) -- the last: by it a sweep finds what was cut off
  end
end

-- Settles the items (id, token, …) that begin at ARGV[first]: calls act(id, text, i) for those whose token
-- holds, i being the item's place in ARGV, then finish(), then lets their leases go. Returns for each item a
-- verdict, or what act said became of it.
local function settle(first, width, act, finish)
  local ids, verdicts, let, done = {}, {}, {}, {}
  for i = first, #ARGV, width do
    ids[#ids + 1] = ARGV[i]
  end
  local texts = redis.call('HMGET', states, unpack(ids))
  for n, id in ipairs(ids) do
    local i = first + (n - 1) * width
    local token = ARGV[i + 1]
    if done[id] then
      verdicts[n] = SETTLED_BEFORE
    elseif holds(token, texts[n]) then
      verdicts[n] = act(id, texts[n], i) or SETTLED
      done[id], let[token] = true, (let[token] or 0) + 1
    else
      verdicts[n] = refusal(id, token, texts[n])
    end
  end
  if next(done) and finish then
    finish()
  end
  for token, count in pairs(let) do
    let_go(token, count)
  end
  return verdicts
end
-- The record of a message that is held; nil where an ack or a discard was cut off: what it left behind goes, too.
local function held_record(id)
  local record = redis.call('HGET', messages, id)
  if not record then
    redis.call('HDEL', history, id)
    redis.call('HDEL', states, id)
  end
  return record
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
-- A message goes back unseen, or unfairly held: not charged, due now, at its old place (I8).
-- consumer: who held it, for the outcome history
local function give_back(id, state, head, consumer)
  state.released = state.released + 1
  stand(id, state, head)
  redis.call('HINCRBY', counters, 'released', 1)
  outcome('released', id, head, state, 0, { consumer = consumer })
end
-- One token, never more: it wakes one waiting client, whose claim passes it on where work is left. So no one
-- polls, and a message wakes one client of a thousand.
local function wake_one()
  if redis.call('LLEN', wake) == 0 then
    redis.call('LPUSH', wake, 1)
    redis.call('PEXPIRE', wake, 5000) -- who comes later looks before it waits; so none is left behind (I13)
  end
end
return settle(1, 2, function(id, text)
  local record = held_record(id)
  if not record then
    return GONE
  end
  local head = read_record(record)
  local state = parse_state(text, head.birth)
  give_back(id, state, head, setting('outcomes') and holder(state.token))
end, wake_one)
