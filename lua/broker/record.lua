-- The flag of a record (Values.packed) that has an expiry.
Record.EXPIRES = 0x10

-- Bytes. If a record is longer, the state of its message has the head of the record (Record.word).
Record.LONG = 2048

-- The lanes of a message: of its key and of its dependency, the numbers of these (rq_dlq/values/key.py), which precede all
-- other fields that its sender packed beside the body. nil: it has none.
--   text: a record or a payload whose flags say that it has such fields; first: where they begin, with their length
local KEY, DEPENDENCY = 1, 2 -- the numbers of the fields

function Record.lanes_in(text, first)
  local lanes, at = {}, first + 2
  for field = KEY, DEPENDENCY do
    local number, high, low, a, b, c, d, e, f = text:byte(at, at + 8)
    if f and number == field then
      lanes[field] = ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f
      at = at + 3 + high * 256 + low
    end
  end
  return lanes[KEY], lanes[DEPENDENCY]
end

-- The lanes of a message, from its record (Record.lanes_in). nil: it has none.
local HEADERS = 0x20

local function lanes_of(record)
  local flags = record:byte(8)
  if flags and math.floor(flags / HEADERS) % 2 == 1 then
    return Record.lanes_in(record, math.floor(flags / Record.EXPIRES) % 2 == 1 and 15 or 9)
  end
end

-- The text of a key or a dependency in the record of a message (Record.lanes_in).
--   of: key or dependency
local NUMBERS, WIDTH = { key = 1, dependency = 2 }, 6 -- numbers of the fields; bytes of a lane

function Record.text_in(record, of)
  local at = math.floor((record:byte(8) or 0) / Record.EXPIRES) % 2 == 1 and 17 or 11
  for _ = 1, 2 do
    local number, high, low = record:byte(at, at + 2)
    local last = low and at + 2 + high * 256 + low or 0
    if number == NUMBERS[of] then
      return record:sub(at + 3 + WIDTH, last)
    end
    at = last + 1
  end
  return ''
end

-- Reads the head of a record (Values.packed). In a file of its own, since every send defines the function that packs it.
local TRANSIENT = 0x80

local function unpack_number(text, first, width)
  local value = 0
  for i = first, first + width - 1 do
    value = value * 256 + text:byte(i)
  end
  return value
end

local function has_expiry(record)
  return math.floor((record:byte(8) or 0) / Record.EXPIRES) % 2 == 1
end

-- lane: the lane of its key; needs: the lane of its dependency.
local function as_head(birth, flags, expires, lane, needs)
  return {
    birth = birth, priority = math.min(flags % Record.EXPIRES, 9), expires = expires, transient = flags >= TRANSIENT,
    lane = lane, needs = needs,
  }
end

-- Reads the head of a record. A damaged record must still reach the dead-letter queue, so it gets defaults.
function Record.read(record)
  if #record < 14 and (#record < 8 or has_expiry(record)) then
    return { birth = 0, priority = 4 }
  end
  local flags, expires = record:byte(8), has_expiry(record) and unpack_number(record, 9, 6) or nil
  local lane, needs = lanes_of(record)
  return as_head(unpack_number(record, 1, 7), flags, expires, lane, needs)
end

-- Whether a later version wrote a message in a form of its own: its state line begins with the version that reads it,
-- ">=1.4 ", or its record has that after birth and flags of 0x0F. Only the holder of such a message is known, since every
-- form has +token or -token. The message is left alone; the index rows that lead to it are put off, so that it blocks no
-- other message, and a version that can read it finds it.
local MARK, FLAGS = '^>=%d[%d.]* ', 0x0F
Record.AGAIN = 60000 -- milliseconds until it is checked again

function Record.is_later(record, text)
  return text and text:find(MARK) ~= nil or record:byte(8) == FLAGS and record:find(MARK, 9) ~= nil
end

-- The field in the state of a message whose record is long: the head of the record, and its length. So scripts need not
-- read the body, since Redis cannot read a part of a hash's field. Empty for a short record.
--    head=birth/flags/expiry/length[ lane=N][ needs=N]
-- expiry 0: none; lane, needs: the lanes of its key and of its dependency (Record.lanes_in)
function Record.word(record)
  if #record <= Record.LONG then
    return ''
  end
  local head = Record.read(record)
  local lanes = head.lane and string.format(' lane=%.0f', head.lane) or ''
  lanes = lanes .. (head.needs and string.format(' needs=%.0f', head.needs) or '')
  return string.format(' head=%.0f/%d/%.0f/%d', head.birth, record:byte(8), head.expires or 0, #record) .. lanes
end

-- The birth, the flags, the expiry (0: none) and the lanes (nil: none) of a long record, from the state of its message
-- (Record.word); nil if the state does not have them.
local function stated_head(text)
  local at = text and text:find(' head=')
  if at then
    local birth, flags, expires = text:match('^ head=(%d+)/(%d+)/(%d+)/%d+', at)
    if birth and #birth <= 16 and #expires <= 14 and tonumber(flags) <= 255 then -- otherwise another program wrote that
      local lane, needs = text:match(' lane=(%d+)'), text:match(' needs=(%d+)')
      return tonumber(birth), tonumber(flags), tonumber(expires), tonumber(lane or nil), tonumber(needs or nil)
    end
  end
end

-- The head of a message: the part of its record that the scripts need, from its record and state. The state of a long one
-- has it (Record.word), and that counts: if a change of priority was cut off, the record may have the old one.
function Record.head_in(record, text)
  local birth, flags, expires, lane, needs = stated_head(text)
  if birth then
    return as_head(birth, flags, expires > 0 and expires or nil, lane, needs)
  end
  return Record.read(record)
end

-- The head of a message whose state is `text` (Record.head_in). A long record is not read: the state has its head
-- (Record.word), unless an earlier version sent the message. Returns nil if the message does not exist; nil and true if it
-- is of a later form.
function Record.head_of(q, id, text)
  local birth, flags, expires, lane, needs = stated_head(text)
  if birth then
    if redis.call('HEXISTS', q.messages, id) == 0 then
      return nil, false
    elseif Record.is_later('', text) then
      return nil, true
    end
    return as_head(birth, flags, expires > 0 and expires or nil, lane, needs), false
  end
  local record = redis.call('HGET', q.messages, id)
  if not record then
    return nil, false
  elseif Record.is_later(record, text) then
    return nil, true
  end
  return Record.read(record), false
end

-- The head of a held message, and whether it is of a later form, as in Record.head_of. If an ack or a discard was cut off,
-- nil, and the remains of the message are removed.
function Record.held_head(q, id, text)
  local head, later = Record.head_of(q, id, text)
  if not head and not later then
    Places.drop(q, { id })
  end
  return head, later
end

-- The first bytes of a long record, up to its expiry, from the state of its message; nil if the state does not have them.
function Record.bytes(text)
  local birth, flags, expires = stated_head(text)
  if not birth then
    return nil
  end
  return Values.packed(birth, 7) .. string.char(flags) .. Values.packed(expires, 6)
end

-- The fields of a state (State) with the head of this record.
function Record.with_head(more, record)
  return more:gsub(' head=%S*', ''):gsub(' lane=%S*', ''):gsub(' needs=%S*', '') .. Record.word(record)
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
  local head = record:sub(1, 7) .. string.char(flags + (ends and Record.EXPIRES or 0))
  return head .. (ends and Values.packed(ends, 6) or '') .. record:sub(first)
end

-- The lane of the dependency of a message that is not of a later form, from its state if that has it (Record.word),
-- otherwise from its record; nil: none, or the message is gone. It defines little: acks need no more of the head
-- (Record.head_of).
function Record.needs_of(q, id, text)
  if text:find(' head=', 1, true) then
    return tonumber(text:match(' needs=(%d+)') or nil)
  end
  local record = redis.call('HGET', q.messages, id)
  local _, needs = lanes_of(record or '')
  return needs
end

local PAGE = 250

-- Reads the records of ids[first] and those after it into `records`: a page of them, and of long ones `most` bytes and the
-- record that exceeds them. Their lengths are in the states (Record.word). Returns the records, and the position of the
-- last.
function Record.read_records(q, records, ids, texts, first, most)
  local long = first > 1 or #ids > PAGE
  for n = 1, #ids do
    long = long or texts[n] and texts[n]:find(' head=')
  end
  if not long then
    return redis.call('HMGET', q.messages, unpack(ids)), #ids
  end
  local page, bytes, last = {}, 0, first - 1
  local stop = math.min(#ids, last + PAGE)
  while last < stop and bytes <= most do
    last = last + 1
    page[last - first + 1] = ids[last]
    if texts[last] then
      bytes = bytes + (tonumber(texts[last]:match(' head=%S+/(%d+)')) or 0)
    end
  end
  for at, record in ipairs(redis.call('HMGET', q.messages, unpack(page))) do
    records[first - 1 + at] = record
  end
  return records, last
end
