-- Looks at messages without touching them. Returns id, record, state, history, lease deadline for each: those
-- of the items that are in the place, or a page of the place in its order, from the rank `first`; of what is leased,
-- a page of the leases, the first to lapse first.
local messages, states, history = KEYS[1], KEYS[2], KEYS[3]
local ready, scheduled, dead, expired = KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local leases, claims = KEYS[8], KEYS[9]
local place, first, limit = ARGV[1], ARGV[2], ARGV[3] -- place: ready, scheduled, leased, dead, expired; empty: any
-- items from ARGV[4]: id
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
-- The id in a member of an index (see lib/place for what stands before it).
local function id_of(member)
  return member:sub(member:byte(1) < 16 and 9 or 3)
end
local index = ({ ready = ready, scheduled = scheduled, leased = leases, dead = dead, expired = expired })[place]

local function is_there(id, record, text)
  local head = read_record(record)
  local state = parse_state(text, head.birth)
  if place == 'leased' then
    return state.mark == '+'
  end
  return state.mark == '-' and redis.call('ZSCORE', index, member_of(id, head, state.due))
end

local ids = {}
if #ARGV >= 4 then
  for i = 4, #ARGV do
    ids[#ids + 1] = ARGV[i]
  end
else
  for _, row in ipairs(redis.call('ZRANGE', index, first, first + limit - 1)) do
    if place == 'leased' then
      for id in (redis.call('HGET', claims, row) or ''):gmatch('\n([^\n]+)') do
        ids[#ids + 1] = id
      end
    else
      ids[#ids + 1] = id_of(row)
    end
  end
end
local doubtful = #ARGV >= 4 and place ~= '' or place == 'leased' -- a claim lists what it held at first
local reply = {}
for _, id in ipairs(ids) do
  local record = redis.call('HGET', messages, id)
  local state = redis.call('HGET', states, id) or ''
  if record and (not doubtful or is_there(id, record, state)) then
    local token = state:match(' %+(%S+) ')
    reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = id, record, state
    reply[#reply + 1] = redis.call('HGET', history, id) or ''
    reply[#reply + 1] = token and redis.call('ZSCORE', leases, token) or ''
  end
end
return reply
