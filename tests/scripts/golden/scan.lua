-- Reads a range of an index, a page per call, and changes nothing. A row that stays in its place is read exactly once,
-- whatever is added or removed between two pages: the next page begins after the score and the member of the last row, even
-- if that row is gone (newest first: it ends at the row before the first). Returns the score and the member at which the
-- next page begins or ends (empty: the range is complete; half a megabyte fills a page), then lists of ids, records, states
-- and histories. An id is nil if the message does not exist. For `leased`, the ids are the claims' tokens.
local place, order = ARGV[1], ARGV[2] -- place: as in browse, or groups; order: oldest or newest first
local record, state, story = ARGV[3], ARGV[4], ARGV[5] -- parts to return: whole, head or no; yes or no; yes or no
local limit, score, member = tonumber(ARGV[6]), ARGV[7], ARGV[8] -- the row after which the range begins
local last_score, last_member = ARGV[9], ARGV[10] -- the last row of the range
local messages, states, history, ready, scheduled = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local dead, expired, leases, groups = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
-- How many rows of an index precede (score, member) or are equal to it: those of a lower score, and as many of the same
-- score as a binary search finds.

-- By bytes, as Redis sorts; Lua compares by the server's locale.
local function is_after(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = one:byte(i), other:byte(i)
    if a ~= b then
      return a > b
    end
  end
  return #one > #other
end

local function rows_up_to(index, score, member)
  local low = redis.call('ZCOUNT', index, '-inf', '(' .. score)
  local high = low + redis.call('ZCOUNT', index, score, score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_after(redis.call('ZRANGE', index, middle, middle)[1], member) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end
-- The id in a member of an index (lib/order describes the bytes before it).
local function id_of(member)
  return member:sub(member:byte(1) < 16 and 9 or 3)
end
local index = ({ ready = ready, scheduled = scheduled, leased = leases, dead = dead, expired = expired })[place] or groups
local part = (place == 'dead' or place == 'expired') and place or 'live'

-- Whether the row was left behind by a script that was cut off. Only rows that their states contradict are checked.
local function is_elsewhere(row, id, text)
  local actual, mark = text:match('^(%a+)/?%a* ([+-])')
  if place == 'groups' then
    -- The half of a message that is written once; only its priority may change, and a redrive may edit it:
    --   7 bytes  birth: its millisecond * 4096 + its number there; unique among what is sent to a queue
    --   1 byte   flags: the priority in the low four bits, 0x10 if an expiry follows, 0x80 for a message that is not kept
    --            when it fails (persistent=False); the other bits are the sender's
    --   6 bytes  expiry in milliseconds, only with that flag
    --   …        fields, headers and body, as the sender packed them; scripts read only the first fields (lib/lanes_in)
    -- Flags of 0x0F, and the mark of a version after them: a record of a later form (lib/is_later).

    -- A whole number in `width` bytes, at most seven. Each step is spelled out, since a loop costs as much as a command.
    local function pack_number(value, width)
      local g = value % 256
      value = (value - g) / 256
      local f = value % 256
      value = (value - f) / 256
      local e = value % 256
      value = (value - e) / 256
      local d = value % 256
      value = (value - d) / 256
      local c = value % 256
      value = (value - c) / 256
      local b = value % 256
      return string.char((value - b) / 256 % 256, b, c, d, e, f, g):sub(-width)
    end
    -- The row of a dead letter in `groups`: its group, its time of death, and its row in `dead`. All scores are 0, so Redis
    -- sorts by bytes: a group is a range that begins with its oldest dead letter, and so are groups with the same first six
    -- digits.
    --   group: twelve digits, lapsed, expired, or empty: the failure has no fingerprint
    local function group_row(group, died, member)
      return string.format('%-12s', group) .. pack_number(died, 6) .. member
    end
    -- Whether a row of `groups` contradicts the state of its message, and was left behind.
    local function left_group(row, text)
      local part, mark, died = text:match('^(%a+)/?%a* ([+-])%S* (%d+)')
      local expected = died and group_row(text:match(' group=(%S*)') or '', died, '')
      return part ~= nil and (part ~= 'dead' or mark == '+' or row:sub(1, 18) ~= expected)
    end
    return left_group(row, text)
  elseif not actual or actual == part and mark == '-' then
    return false
  end
  -- The birth, the flags, the expiry (0: none) and the lanes (nil: none) of a long record, from the state of its message
  -- (lib/head_word); nil if the state does not have them.
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
  -- Whether a later version wrote a message in a form of its own: its state line begins with the version that reads it,
  -- ">=1.4 ", or its record has that after birth and flags of 0x0F. Only the holder of such a message is known, since every
  -- form has +token or -token. The message is left alone; the index rows that lead to it are put off, so that it blocks no
  -- other message, and a version that can read it finds it.
  local MARK, FLAGS, AGAIN = '^>=%d[%d.]* ', 0x0F, 60000 -- milliseconds until it is checked again

  local function is_later(record, text)
    return text and text:find(MARK) ~= nil or record:byte(8) == FLAGS and record:find(MARK, 9) ~= nil
  end
  -- The flag of a record (lib/record) that has an expiry.
  local EXPIRES = 0x10
  -- The lanes of a message: of its key and of its dependency, the numbers of these (rq_dlq/values/key.py), which precede all
  -- other fields that its sender packed beside the body. nil: it has none.
  --   text: a record or a payload whose flags say that it has such fields; first: where they begin, with their length
  local KEY, DEPENDENCY = 1, 2 -- the numbers of the fields

  local function lanes_in(text, first)
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
  -- The lanes of a message, from its record (lib/lanes_in). nil: it has none.
  local HEADERS = 0x20

  local function lanes_of(record)
    local flags = record:byte(8)
    if flags and math.floor(flags / HEADERS) % 2 == 1 then
      return lanes_in(record, math.floor(flags / EXPIRES) % 2 == 1 and 15 or 9)
    end
  end
  -- Reads the head of a record (lib/record). In a file of its own, since every send defines the function that packs it.
  local TRANSIENT = 0x80

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

  -- lane: the lane of its key; needs: the lane of its dependency.
  local function as_head(birth, flags, expires, lane, needs)
    return {
      birth = birth, priority = math.min(flags % EXPIRES, 9), expires = expires, transient = flags >= TRANSIENT,
      lane = lane, needs = needs,
    }
  end

  -- Reads the head of a record. A damaged record must still reach the dead-letter queue, so it gets defaults.
  local function read_record(record)
    if #record < 14 and (#record < 8 or has_expiry(record)) then
      return { birth = 0, priority = 4 }
    end
    local flags, expires = record:byte(8), has_expiry(record) and unpack_number(record, 9, 6) or nil
    local lane, needs = lanes_of(record)
    return as_head(unpack_number(record, 1, 7), flags, expires, lane, needs)
  end
  -- The head of a message whose state is `text` (lib/head_in). A long record is not read: the state has its head
  -- (lib/head_word), unless an earlier version sent the message. Returns nil if the message does not exist; nil and true if
  -- it is of a later form.
  local function head_of(id, text)
    local birth, flags, expires, lane, needs = stated_head(text)
    if birth then
      if redis.call('HEXISTS', messages, id) == 0 then
        return nil, false
      elseif is_later('', text) then
        return nil, true
      end
      return as_head(birth, flags, expires > 0 and expires or nil, lane, needs), false
    end
    local record = redis.call('HGET', messages, id)
    if not record then
      return nil, false
    elseif is_later(record, text) then
      return nil, true
    end
    return read_record(record), false
  end
  -- The mutable half of a message: one line of text, and the truth about where the message is; the sorted sets are indexes of
  -- it. Absent until the message is claimed or delayed, unless its record is long.
  --   part[/reason] (+|-)token due deliveries charged nacked lapsed released redriven delay{ name=value}
  -- part: live, dead or expired; +token holds it, -token held it last (so that a repeated call is recognized, I12);
  -- due: when it becomes ready, or when it died; 0: when it was born; delay: of the last redelivery, milliseconds;
  -- name=value: head (lib/head_word), rest (lib/put), expires (lib/redriven_expiry), untried (lib/attempts), passed_on
  -- (pass_on.lua), uncharged (lib/uncharged), or a field that this version does not have, kept as it is. A field that is missing has its default.
  local STATE = '^(%a+)/?(%a*) ([+-])(%S*) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)(.*)$'
  local MORE = ' [%w_]+=%S*'
  local LATER = 2 ^ 42 -- milliseconds: no score has room for a later time (lib/order), so another program wrote that

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

  -- When a message expires, if it does. A death ends the time to live: a redriven message does not expire again, unless the
  -- redrive gave it another one (lib/redriven_expiry).
  local function expiry_of(head, state)
    if state.redriven == 0 then
      return head.expires
    end
    return tonumber(state.more:match(' expires=(%d+)') or nil)
  end

  local function pack_number(value, width)
    local g = value % 256
    value = (value - g) / 256
    local f = value % 256
    value = (value - f) / 256
    local e = value % 256
    value = (value - e) / 256
    local d = value % 256
    value = (value - d) / 256
    local c = value % 256
    value = (value - c) / 256
    local b = value % 256
    return string.char((value - b) / 256 % 256, b, c, d, e, f, g):sub(-width)
  end
  -- The order of an index (I8): priority, then due time, then send order. The score holds priority and due time. Redis sorts
  -- ties of the score by the bytes of the member, so the member begins with the send order. While the message is due when it
  -- was born, that is its number within the millisecond, since the score holds the millisecond already (2 bytes, the first 16
  -- to 31). Otherwise it is 9 - priority and the whole birth (8 bytes, the first 0 to 9).
  -- A message with a key or a dependency always has the long form, so its row is the same in a lane and in `ready`
  -- (lib/enter).
  -- A scheduled message is never due in the millisecond of its birth, not even after the clock stepped back: promote reads
  -- the priority from the member.
  local BAND = 2 ^ 42

  local function score_of(priority, due)
    return (9 - priority) * BAND + due
  end

  -- The send order without its last byte, which is the last byte of the birth.
  local function order_of(head, due)
    local number = head.birth % 4096
    local last = number % 256
    if not (head.lane or head.needs) and (head.birth - number) / 4096 == due then
      return string.char(16 + (number - last) / 256)
    end
    return string.char(9 - head.priority) .. pack_number((head.birth - last) / 256, 6)
  end

  local function member_of(id, head, due)
    return order_of(head, due) .. string.char(head.birth % 256) .. id
  end
  -- Whether a row of an index was left behind by a script that was cut off: its message is leased, or has another row, where
  -- its state says. The only row of a message always counts, even if its record or state is damaged, so that no damage hides
  -- a message.
  local function left_over(index, row, id, state, head)
    if state.mark == '+' and redis.call('ZSCORE', leases, state.token) then
      return true
    end
    local member = member_of(id, head, state.due)
    local indexes = state.part == 'dead' and { dead } or state.part == 'expired' and { expired } or { ready, scheduled }
    for _, other in ipairs(indexes) do
      if (other ~= index or member ~= row) and redis.call('ZSCORE', other, member) then
        return true
      end
    end
    return false
  end
  local head = head_of(id, text) -- nil: of a later form, whose row may be right
  return head and left_over(index, row, id, parse_state(text, head.birth), head)
end

local first, stop = rows_up_to(index, score, member), rows_up_to(index, last_score, last_member)
local low, high = first, math.min(first + limit, stop)
if order == 'newest' then
  low, high = math.max(first, stop - limit), stop
end
if low >= high then
  return { '', '', {}, {}, {}, {} }
end
local rows = redis.call('ZRANGE', index, low, high - 1)
local ids, row_of = {}, {} -- by position: a message may have two rows
for n, row in ipairs(rows) do
  local at = order == 'newest' and #rows + 1 - n or n
  ids[at], row_of[at] = id_of(place == 'groups' and row:sub(19) or row), row
end

local texts, records, stories, kept = {}, {}, {}, #rows
if place ~= 'leased' then
  texts = redis.call('HMGET', states, unpack(ids))
  -- Reads the requested parts of messages into `records` and `stories`, false if a part is missing, up to about half a
  -- megabyte. Returns how many messages it read.
  local MOST = 524288 -- bytes, or one message (I9)

  -- The heads of records; those of long ones are in the states.
  local function read_heads(ids, texts, records)
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

    local function pack_number(value, width)
      local g = value % 256
      value = (value - g) / 256
      local f = value % 256
      value = (value - f) / 256
      local e = value % 256
      value = (value - e) / 256
      local d = value % 256
      value = (value - d) / 256
      local c = value % 256
      value = (value - c) / 256
      local b = value % 256
      return string.char((value - b) / 256 % 256, b, c, d, e, f, g):sub(-width)
    end
    -- The first bytes of a long record, up to its expiry, from the state of its message; nil if the state does not have them.
    local function head_bytes(text)
      local birth, flags, expires = stated_head(text)
      if not birth then
        return nil
      end
      return pack_number(birth, 7) .. string.char(flags) .. pack_number(expires, 6)
    end
    local short, places = {}, {}
    for n, id in ipairs(ids) do
      records[n] = head_bytes(texts[n])
      if records[n] and redis.call('HEXISTS', messages, id) == 0 then
        records[n] = false
      elseif not records[n] then
        short[#short + 1], places[#places + 1] = id, n
      end
    end
    for n, found in ipairs(#short > 0 and redis.call('HMGET', messages, unpack(short)) or {}) do
      records[places[n]] = found and found:sub(1, 14)
    end
  end

  local function read_parts(ids, texts, records, stories)
    local kept, spent, found = #ids, 0, {}
    if record == 'head' then
      read_heads(ids, texts, records)
    elseif record == 'whole' then
      -- Reads the records of ids[first] and those after it into `records`: a page of them, and of long ones `most` bytes and the
      -- record that exceeds them. Their lengths are in the states (lib/head_word). Returns the records, and the position of the
      -- last.
      local PAGE = 250

      local function read_records(records, ids, texts, first, most)
        local long = first > 1 or #ids > PAGE
        for n = 1, #ids do
          long = long or texts[n] and texts[n]:find(' head=')
        end
        if not long then
          return redis.call('HMGET', messages, unpack(ids)), #ids
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
        for at, record in ipairs(redis.call('HMGET', messages, unpack(page))) do
          records[first - 1 + at] = record
        end
        return records, last
      end
      kept = 0
      while kept < #ids and spent <= MOST do
        local first = kept + 1
        found, kept = read_records(found, ids, texts, first, MOST - spent)
        for n = first, kept do
          records[n] = found[n]
          spent = spent + #(found[n] or '')
        end
      end
    end
    if story ~= 'yes' then
      return kept
    end
    spent = 0
    for n = 1, kept do
      stories[n] = texts[n] and redis.call('HGET', history, ids[n])
      spent = spent + #(stories[n] or '')
      if spent > MOST then
        for over = n + 1, kept do
          records[over] = nil
        end
        return n
      end
    end
    return kept
  end
  kept = read_parts(ids, texts, records, stories)
end
local next_score, next_member = '', ''
if order == 'newest' and low + #rows - kept > first then
  low = low + #rows - kept
  next_member = redis.call('ZRANGE', index, low - 1, low - 1)[1]
elseif order == 'oldest' and low + kept < stop then
  next_member = rows[kept]
end
if next_member ~= '' then
  next_score = redis.call('ZSCORE', index, next_member)
end
if place == 'leased' then
  return { next_score, next_member, rows, {}, {}, {} }
end
for n = #ids, 1, -1 do
  local id = ids[n]
  if n > kept then
    ids[n], texts[n] = nil, nil
  elseif not records[n] and redis.call('HEXISTS', messages, id) == 0 or texts[n] and is_elsewhere(row_of[n], id, texts[n]) then
    ids[n] = false
  end
end
return { next_score, next_member, ids, record == 'no' and {} or records, state == 'yes' and texts or {}, stories }
