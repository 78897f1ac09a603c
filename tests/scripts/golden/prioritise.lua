-- Changes the priority of waiting messages: the one byte of a record that is not written for ever. Returns the ids.
local messages, states, ready, scheduled = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local expiring, history, dead, expired, leases = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local place, priority = ARGV[1], tonumber(ARGV[2]) -- place: ready or scheduled
-- items from ARGV[3]: id
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
local index = place == 'ready' and ready or scheduled
local changed = {}
each_chosen(index, 3, 0, 0, function(id, state, head, member)
  local record = redis.call('HGET', messages, id)
  local flags = record:byte(8)
  if flags then -- else the record is damaged
    head.priority = priority
    stand(id, state, head, place == 'scheduled')
    redis.call('HSET', messages, id, record:sub(1, 7) .. string.char(flags - flags % EXPIRES + priority) .. record:sub(9))
    if member_of(id, head, state.due) ~= member then
      redis.call('ZREM', index, member)
    end
    changed[#changed + 1] = id
  end
end)
return changed
