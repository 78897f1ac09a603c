-- The record of a message, the half that is written once; only its priority may change, and a redrive may edit it:
--   7 bytes  birth: its millisecond * 4096 + its number there; unique among what is sent to a queue
--   1 byte   flags: the priority in the low four bits, 0x10 if an expiry follows, 0x20 if fields or headers do, 0x80 for a
--            message that is not kept when it fails (persistent=False); the other bits are the sender's
--   6 bytes  expiry in milliseconds, only with that flag
--   …        fields, headers and body, as the sender packed them; only the first fields are read (Record.lanes_in)
-- Birth, flags, expiry and lanes are its head. Flags of 0x0F, and the mark of a version after them: a record of a later
-- form (Record.is_later).
--
-- Redis cannot read a part of a hash's field, and a body may be a megabyte, whose copy takes 1 ms. So the state of a record
-- longer than 2 kB repeats its head (`head=`), and no verb reads a long record to judge, move, bury, sweep or count its
-- message. A second hash for the heads would cost each message some 90 bytes, and every verb one more command.
Record.EXPIRES, Record.FIELDS = 0x10, 0x20 -- flags
Record.LONG = 2048 -- bytes; if a record is longer, the state of its message has the head of the record (Record.word)
Record.AGAIN = 60000 -- milliseconds until a message of a later form is checked again
local TRANSIENT = 0x80 -- a flag
local MARK, LATER = '^>=%d[%d.]* ', 0x0F -- of a later form, and its flags
local PAGE = 250 -- records that are read at once

-- A message may have a key and a dependency: fields 1 and 2, which precede all other fields that its sender packed beside
-- the body. Each is the number of its lane, which its sender computed, and its text.
local NAMES = { 'key', 'dependency' } -- by the number of the field
local WIDTH = 6 -- bytes of a lane

-- The number of the lane of a key or a dependency: the lowest 46 bits of the first six bytes of SHA-1 of "key" or
-- "dependency", a zero byte and the text. Every language has it.
function Record.lane_of(of, text)
  return tonumber(redis.sha1hex(of .. '\0' .. text):sub(1, 12), 16) % 2 ^ 46
end

-- The lane of this field of a text, and what its sender computed; nil: it has none. Then where the next field begins.
local function lane_at(text, at, field)
  local number, high, low, a, b, c, d, e, f = text:byte(at, at + 8)
  if number ~= field or not low then
    return nil, nil, at
  end
  local last = at + 2 + high * 256 + low
  if not f or last < at + 3 + WIDTH then
    return nil, nil, last + 1
  end
  local said = Values.unpacked(a, b, c, d, e, f)
  return redis.sha1hex and Record.lane_of(NAMES[field], text:sub(at + 3 + WIDTH, last)) or said, said, last + 1
end

-- The lanes of the key and of the dependency of a message, by their texts; nil: it has none. Then the same as its sender
-- computed them, which count only on fakeredis, which has no SHA-1.
--   text: a record or a payload whose flags say that it has such fields; first: where they begin, with their length
function Record.lanes_in(text, first)
  local lane, said_lane, at = lane_at(text, first + 2, 1)
  local needs, said_needs = lane_at(text, at, 2)
  return lane, needs, said_lane, said_needs
end

-- Where the fields of a record begin, with their length; nil: it has none.
function Record.fields_at(record)
  local flags = record:byte(8)
  if flags and flags % (2 * Record.FIELDS) >= Record.FIELDS then
    return flags % (2 * Record.EXPIRES) >= Record.EXPIRES and 15 or 9
  end
end

-- The lanes of a record (Record.lanes_in).
local function lanes_of(record)
  local first = Record.fields_at(record)
  if first then
    return Record.lanes_in(record, first)
  end
end

-- The text of a key or a dependency in the record of a message (Record.lanes_in).
--   of: key or dependency
function Record.text_in(record, of)
  local at = math.floor((record:byte(8) or 0) / Record.EXPIRES) % 2 == 1 and 17 or 11
  for _ = 1, 2 do
    local number, high, low = record:byte(at, at + 2)
    local last = low and at + 2 + high * 256 + low or 0
    if NAMES[number] == of then
      return record:sub(at + 3 + WIDTH, last)
    end
    at = last + 1
  end
  return ''
end

-- The birth with which a record begins.
function Record.birth_in(record)
  return Values.unpacked(record:byte(1, 7))
end

-- When a message whose flags have an expiry expires; 0: its record is damaged.
function Record.expiry_in(record)
  return #record < 14 and 0 or Values.unpacked(record:byte(9, 14))
end

-- A head, as all functions have it.
--   lane: the lane of its key; needs: the lane of its dependency
local function as_head(birth, flags, expires, lane, needs)
  local priority = flags % Record.EXPIRES
  return {
    birth = birth, priority = priority > 9 and 9 or priority, expires = expires, transient = flags >= TRANSIENT,
    lane = lane, needs = needs,
  }
end

-- Reads the head of a record. A damaged record must still reach the dead-letter queue, so it gets defaults.
function Record.read(record)
  local flags = record:byte(8)
  local has_expiry = flags and flags % (2 * Record.EXPIRES) >= Record.EXPIRES
  if not flags or has_expiry and #record < 14 then
    return { birth = 0, priority = 4 }
  end
  local expires = has_expiry and Record.expiry_in(record) or nil
  return as_head(Record.birth_in(record), flags, expires, lanes_of(record))
end

-- Whether a later version wrote a message in a form of its own: its state line begins with the version that reads it,
-- ">=1.4 ", or its record has that after birth and flags of 0x0F. Only its holder is known, since every form has +token or
-- -token. It is left alone, and its index rows are put off, so that it blocks no other message.
function Record.is_later(record, text)
  return text and text:find(MARK) ~= nil or record:byte(8) == LATER and record:find(MARK, 9) ~= nil
end

-- The field in the state of a message whose record is long: the head of the record, and its length. Empty for a short one.
--    head=birth/flags/expiry/length[ lanes=KEY/DEPENDENCY]
-- expiry 0: none; lanes: as Record.lanes_in has them, "-" for none. Version 0.1.0 wrote ` lane=N needs=N`, the numbers of
-- its own hash: then the record is read.
function Record.word(record)
  if #record <= Record.LONG then
    return ''
  end
  local head = Record.read(record)
  local lanes = ''
  if head.lane or head.needs then
    lanes = ' lanes=' .. (head.lane and Values.digits(head.lane) or '-')
    lanes = lanes .. '/' .. (head.needs and Values.digits(head.needs) or '-')
  end
  return string.format(' head=%.0f/%d/%.0f/%d', head.birth, record:byte(8), head.expires or 0, #record) .. lanes
end

-- The birth, the flags, the expiry and the lanes (nil: none) of a long record, from the state of its message (Record.word);
-- nil if the state does not have them all.
local function stated_head(text)
  local at = text and text:find(' head=')
  if at and not (text:find(' lane=%d') or text:find(' needs=%d')) then
    local birth, flags, ends = text:match('^ head=(%d+)/(%d+)/(%d+)/%d+', at)
    if birth and #birth <= 16 and #ends <= 14 and tonumber(flags) <= 255 then -- otherwise another program wrote that
      local lane, needs = text:match(' lanes=([%d-]+)/([%d-]+)')
      local expires = tonumber(ends) > 0 and tonumber(ends) or nil
      return tonumber(birth), tonumber(flags), expires, tonumber(lane or nil), tonumber(needs or nil)
    end
  end
end

-- The head of a message: its birth, priority, expiry and lanes, from its record and state. The state of a long one
-- has it (Record.word), and that counts: if a change of priority was cut off, the record may have the old one.
function Record.head_in(record, text)
  local birth, flags, expires, lane, needs = stated_head(text)
  return birth and as_head(birth, flags, expires, lane, needs) or Record.read(record)
end

-- The head of a message whose state is `text` (Record.head_in). A long record is not read, unless an earlier version sent
-- the message. Returns nil if the message does not exist; nil and true if it is of a later form.
function Record.head_of(q, id, text)
  local birth, flags, expires, lane, needs = stated_head(text)
  if birth then
    if redis.call('HEXISTS', q.messages, id) == 0 then
      return nil, false
    elseif Record.is_later('', text) then
      return nil, true
    end
    return as_head(birth, flags, expires, lane, needs), false
  end
  local record = redis.call('HGET', q.messages, id)
  if not record then
    return nil, false
  elseif Record.is_later(record, text) then
    return nil, true
  end
  return Record.read(record), false
end

-- The birth of a message, if no more of its head is needed; nil: it does not exist, or is of a later form.
function Record.birth_of(q, id, text)
  local birth = stated_head(text)
  if birth then
    return not Record.is_later('', text) and redis.call('HEXISTS', q.messages, id) == 1 and birth or nil
  end
  local record = redis.call('HGET', q.messages, id)
  if not record or Record.is_later(record, text) then
    return nil
  end
  return #record < 8 and 0 or Record.birth_in(record)
end

-- The births of messages, by position. The records of a page are read at once, if they are short.
function Record.births_of(q, ids, texts)
  local births = {}
  for first = 1, #ids, PAGE do
    local last, long, seen = math.min(first + PAGE - 1, #ids), false, nil
    for n = first, last do
      if texts[n] ~= seen then
        seen = texts[n]
        long = long or seen:find(' head=', 1, true) or seen:find(MARK)
      end
    end
    local records = long and {} or redis.call('HMGET', q.messages, unpack(ids, first, last))
    for n = first, last do
      local record = records[n - first + 1]
      if record and (record:byte(8) or LATER) ~= LATER then
        births[n] = Record.birth_in(record)
      elseif record ~= false then -- otherwise the message is gone
        births[n] = Record.birth_of(q, ids[n], texts[n])
      end
    end
  end
  return births
end

-- The same of a held message. If an ack or a discard was cut off, nil, and its remains are removed.
function Record.held_head(q, id, text)
  local head, later = Record.head_of(q, id, text)
  if not head and not later then
    Places.drop(q, { id })
  end
  return head, later
end

-- The first bytes of a long record, up to its expiry, from the state of its message (stated_head).
function Record.bytes(text)
  local birth, flags, expires = stated_head(text)
  if not birth then
    return nil
  end
  return Values.packed(birth, 7) .. string.char(flags) .. Values.packed(expires or 0, 6)
end

-- The fields of a state (State) with the head of this record.
function Record.with_head(more, record)
  return State.without(more, 'head', 'lanes', 'lane', 'needs') .. Record.word(record) -- the last two are of version 0.1.0
end

-- A record with this priority: the one byte of it that may change.
function Record.with_priority(record, priority)
  local flags = record:byte(8)
  if not flags or flags % Record.EXPIRES == priority then -- it may be damaged
    return record
  end
  return record:sub(1, 7) .. string.char(flags - flags % Record.EXPIRES + priority) .. record:sub(9)
end

-- A record with another end of its time to live; nil: without one.
function Record.with_expiry(record, ends)
  local flags, first = record:byte(8), 9
  if math.floor(flags / Record.EXPIRES) % 2 == 1 then
    flags, first = flags - Record.EXPIRES, 15
  end
  local start = record:sub(1, 7) .. string.char(flags + (ends and Record.EXPIRES or 0))
  return start .. (ends and Values.packed(ends, 6) or '') .. record:sub(first)
end

-- The lane of the dependency of a message that is not of a later form; nil: none, or it is gone. Acks need no more.
function Record.needs_of(q, id, text)
  local birth, _, _, _, needs = stated_head(text)
  if not birth then
    _, needs = lanes_of(redis.call('HGET', q.messages, id) or '')
  end
  return needs
end

-- Reads the records of ids[first] and those after it: a page of them, and of long ones `most` bytes and the record that
-- exceeds them. Their lengths are in the states (Record.word). Returns the records, and the position of the last.
function Record.read_records(q, ids, texts, first, most)
  local bytes, last = 0, first - 1
  local stop = math.min(#ids, last + PAGE)
  while last < stop and bytes <= most do
    last = last + 1
    local at = texts[last] and texts[last]:find(' head=', 1, true)
    bytes = bytes + (at and tonumber(texts[last]:match('^ head=%S+/(%d+)', at)) or 0)
  end
  return redis.call('HMGET', q.messages, unpack(ids, first, last)), last
end
