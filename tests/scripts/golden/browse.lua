-- Reads messages by their ids, as far as they are in the place, and changes nothing. Returns the ids, the records, the
-- states, the histories and the deadlines of the leases (empty: not leased), each a list; a part that is not asked for
-- is an empty list.
local place = ARGV[1] -- ready, scheduled, leased, dead, expired; empty: any
local record, state, story = ARGV[2], ARGV[3], ARGV[4] -- what to return: whole, head or no; yes or no; yes or no
-- items from ARGV[5]: id
local messages, states, history, ready, scheduled = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local dead, expired, leases = KEYS[6], KEYS[7], KEYS[8]
-- Whether a later version wrote a message in a form of its own: its state line begins with the version that reads it,
-- ">=1.4 ", or its record has that after birth and flags of 0x0F. Only the holder of such a message is known, since
-- every form has the word +token or -token. The message is left alone; the index rows that lead to it are put off, so
-- that it blocks no other message, and a version that can read it finds it.
local MARK, FLAGS, AGAIN = '^>=%d[%d.]* ', 0x0F, 60000 -- milliseconds until it is looked at again

local function is_later(record, text)
  return text and text:find(MARK) ~= nil or record:byte(8) == FLAGS and record:find(MARK, 9) ~= nil
end
-- The immutable half of a message, written once by send:
--   7 bytes  birth: its millisecond * 4096 + its number there; unique among what is sent to a queue
--   1 byte   flags: the priority in the low four bits, 0x10 if an expiry follows, 0x80 for a message that is not kept
--            when it fails (persistent=False); the other bits are the sender's
--   6 bytes  expiry in milliseconds, only with that flag
--   …        what the sender packed: fields, headers and body; no script looks into it, and none writes it again
-- Flags of 0x0F, and the mark of a version after them: a record of a later form (lib/later).
local EXPIRES, TRANSIENT = 0x10, 0x80

local function pack_number(value, width)
  local bytes = {}
  for i = width, 1, -1 do
    bytes[i] = value % 256
    value = math.floor(value / 256)
  end
  return string.char(unpack(bytes))
end

-- The births of one call differ only in their last two bytes, so the first five are kept.
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

-- Reads what the scripts need of a record. A damaged record still has to reach the dead-letter queue, so it reads as
-- something.
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
-- The mutable half of a message: one line of text, and the truth about where the message is; the sorted sets are
-- indexes of it. Absent until someone claims or delays the message.
--   part[/reason] (+|-)token due deliveries charged nacked lapsed released redriven delay{ name=value}
-- part: live, dead or expired; +token holds it, -token held it last (so that a repeated call is known, I12);
-- due: when it becomes ready, or when it died; 0: when it was born; delay: of the last redelivery, milliseconds;
-- name=value: a field that this version does not know, kept as it is. A field that is not there has its default.
local STATE = '^(%a+)/?(%a*) ([+-])(%S*) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)(.*)$'
local MORE = ' [%w_]+=%S*'
local LATER = 2 ^ 42 -- milliseconds: no score has room for a later time (lib/order), so someone else wrote that

local function new_state(due)
  return {
    part = 'live', reason = '', mark = '-', token = '', due = due, delay = 0, more = '',
    deliveries = 0, charged = 0, nacked = 0, lapsed = 0, released = 0, redriven = 0,
  }
end

local function parse_state(text, birth)
  local s = new_state(math.floor(birth / 4096))
  local part, reason, mark, token, due, deliveries, charged, nacked, lapsed, released, redriven, delay, more
  if text then
    part, reason, mark, token, due, deliveries, charged, nacked, lapsed, released, redriven, delay, more =
      text:match(STATE)
  end
  if part and (more == '' or more:gsub(MORE, '') == '') then
    s.part, s.reason, s.mark, s.token = part, reason, mark, token
    local at = tonumber(due)
    s.due = at > 0 and at < LATER and at or s.due
    s.deliveries, s.charged, s.nacked = tonumber(deliveries), tonumber(charged), tonumber(nacked)
    s.lapsed, s.released, s.redriven = tonumber(lapsed), tonumber(released), tonumber(redriven)
    s.delay, s.more = tonumber(delay), more
  end
  return s
end

local function format_state(s)
  local part = s.reason == '' and s.part or s.part .. '/' .. s.reason
  return table.concat({
    part, s.mark .. s.token, s.due, s.deliveries, s.charged, s.nacked, s.lapsed, s.released, s.redriven, s.delay,
  }, ' ') .. s.more
end

-- When a message expires, if it does. A death ends the time to live: what was redriven does not expire again.
local function expiry_of(head, state)
  return state.redriven == 0 and head.expires or nil
end
-- The order of an index (I8): priority, then due time, then send order. The score holds priority and due time. Redis
-- sorts ties of the score by the bytes of the member, so the member begins with the send order. While the message is
-- due when it was born, that is its number within the millisecond, since the score holds the millisecond already (2
-- bytes, the first 16 to 31). Otherwise it is 9 - priority and the whole birth (8 bytes, the first 0 to 9).
-- A scheduled message is never due in the millisecond of its birth, not even after the clock stepped back: promote
-- reads the priority from the member.
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
local index = ({ ready = ready, scheduled = scheduled, dead = dead, expired = expired })[place]

local function is_there(id, whole, text)
  if is_later(whole, text) then
    return place == 'leased' and text:find(' %+%S+ ') ~= nil
  end
  local head = read_record(whole)
  local known = parse_state(text, head.birth)
  if place == 'leased' then
    return known.mark == '+'
  end
  return known.mark == '-' and redis.call('ZSCORE', index, member_of(id, head, known.due))
end

local ids, records, texts, stories, deadlines = {}, {}, {}, {}, {}
for i = 5, #ARGV do
  local id = ARGV[i]
  local whole, text = redis.call('HGET', messages, id), redis.call('HGET', states, id) or ''
  if whole and (place == '' or is_there(id, whole, text)) then
    local n, token = #ids + 1, text:match(' %+(%S+) ')
    ids[n], deadlines[n] = id, token and redis.call('ZSCORE', leases, token) or ''
    records[n] = record == 'whole' and whole or record == 'head' and whole:sub(1, 14) or nil
    texts[n] = state == 'yes' and text or nil
    stories[n] = story == 'yes' and (redis.call('HGET', history, id) or '') or nil
  end
end
return { ids, records, texts, stories, deadlines }
