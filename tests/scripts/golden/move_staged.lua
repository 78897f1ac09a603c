-- Moves messages of a committed job from the head of one of its lists into the queue. Returns how many, and how many
-- of them the queue knew; 0 where there are no more, or where it is too early for a caller that did not commit them.
local member, limit, delay, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]) -- milliseconds
local early = ARGV[5] -- 1: from the caller that committed them
local longest = tonumber(ARGV[6]) -- bytes of a payload at most, as far as the caller knows
local MOST = 524288 -- bytes, or one message (I9)
local messages, states, ready, scheduled, expiring = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local counters, settings, wake, committed, acked_ids = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local staged = KEYS[11]
-- The server's clock in whole milliseconds, read once a script (I11).
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
-- The flag of a record (lib/record) that has an expiry.
local EXPIRES = 0x10
-- Bytes. The state of a message whose record is longer has its head (lib/head_word).
local LONG = 2048
-- The immutable half of a message, written once by send:
--   7 bytes  birth: its millisecond * 4096 + its number there; unique among what is sent to a queue
--   1 byte   flags: the priority in the low four bits, 0x10 if an expiry follows, 0x80 for a message that is not kept
--            when it fails (persistent=False); the other bits are the sender's
--   6 bytes  expiry in milliseconds, only with that flag
--   …        what the sender packed: fields, headers and body; no script looks into it, and none writes it again
-- Flags of 0x0F, and the mark of a version after them: a record of a later form (lib/later).

-- A whole number in `width` bytes, at most six. Each step is spelled out, since a loop costs Redis a command's time.
local function pack_number(value, width)
  local f = value % 256
  value = (value - f) / 256
  local e = value % 256
  value = (value - e) / 256
  local d = value % 256
  value = (value - d) / 256
  local c = value % 256
  value = (value - c) / 256
  local b = value % 256
  return string.char((value - b) / 256 % 256, b, c, d, e, f):sub(-width)
end

-- The births of one call differ only in their last two bytes, so the first five are kept.
local packed_high, packed_prefix
local function pack_birth(birth)
  local low = birth % 65536
  local high = (birth - low) / 65536
  if high ~= packed_high then
    packed_high, packed_prefix = high, pack_number(high, 5)
  end
  local last = low % 256
  return packed_prefix .. string.char((low - last) / 256, last)
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
  if (head.birth - number) / 4096 == due then
    local last = number % 256
    return string.char(16 + (number - last) / 256, last) .. id
  end
  return string.char(9 - head.priority) .. pack_birth(head.birth) .. id
end
-- Puts one token on the list, never more. It wakes one waiting client, whose claim passes it on where work is left.
-- So no client polls, and a message wakes one of a thousand.
local function wake_one()
  if redis.call('LLEN', wake) == 0 then
    redis.call('LPUSH', wake, 1)
    redis.call('PEXPIRE', wake, 5000) -- a client looks before it waits, so the token may go; none is left behind (I13)
  end
end
-- Adds the items (id, payload, …) from items[first] to items[last], except ids that the queue has or, by its
-- dedup_window, remembers (I12). Returns which it knew: 1 is the first; nil, and adds none, if `opening` is outdated.
local function add(items, first, last, delay, ttl, opening)
  local ids, seen = {}, {}
  for i = first, last, 2 do
    ids[#ids + 1] = items[i]
  end
  local values = redis.call('HMGET', settings, 'expiry', 'paused', 'dedup_window', 'opening')
  if opening and values[4] ~= opening then return nil end
  if values[1] then
    -- A duration in the queue's settings, in milliseconds; nil where the text is not one, which counts as unset.
    local function span(text)
      local value = tonumber(text and text:match('^%d+$') or nil)
      return value and value > 0 and value <= 315360000000 and value or nil -- ten years
    end
    -- The time to live that a message gets: the sender's, or the queue's default, between the queue's bounds. Applied
    -- once, at send. As in Artemis the default is for a message that has none, and then the bounds do not count.
    --   allowed: "DELAY MIN MAX" in milliseconds, "-" where unset; "never": messages do not expire
    local function allowed_ttl(asked, allowed)
      if allowed == 'never' then
        return 0
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
    ttl = allowed_ttl(ttl, values[1])
  end
  local birth = math.max(now * 4096, (tonumber(redis.call('HGET', counters, 'birth')) or 0) + 1)
  local existing = redis.call('HMGET', messages, unpack(ids))
  if values[3] then
    -- A duration in the queue's settings, in milliseconds; nil where the text is not one, which counts as unset.
    local function span(text)
      local value = tonumber(text and text:match('^%d+$') or nil)
      return value and value > 0 and value <= 315360000000 and value or nil -- ten years
    end
    -- Marks as known those of the ids that were acked within the queue's dedup_window (lib/remember_acked).
    local function recall_acked(ids, known, dedup_window)
      local window = span(dedup_window)
      for n, id in ipairs(window and ids or {}) do
        local at = not known[n] and tonumber(redis.call('ZSCORE', acked_ids, id) or nil)
        known[n] = known[n] or at and at > now - window
      end
    end
    recall_acked(ids, existing, values[3])
  end
  local known, records, rows, size, head, stated, deadlines, char = {}, {}, {}, 0, {}, {}, {}, string.char
  local ends, expiry = ttl > 0 and string.format('%.0f', now + ttl), ttl > 0 and pack_number(now + ttl, 6)
  local due, score, lead, order -- of all messages whose births differ in the last byte alone
  for n, id in ipairs(ids) do
    if existing[n] or seen[id] then
      known[#known + 1] = n
    else
      local payload, low = items[first + 2 * n - 1], birth % 256
      if low == 0 or payload:byte(1) % EXPIRES ~= head.priority then
        head.birth, head.priority = birth, payload:byte(1) % EXPIRES
        local born = (birth - birth % 4096) / 4096 -- what is delayed is never due then, see lib/order
        due = delay == 0 and born or now + delay ~= born and now + delay or born + 1
        score = string.format('%.0f', delay > 0 and due or score_of(head.priority, due)) -- printed once
        lead, order = pack_birth(birth):sub(1, -2), member_of('', head, due):sub(1, -2)
      end
      if ttl > 0 then
        payload = char(payload:byte(1) + EXPIRES) .. expiry .. payload:sub(2)
        deadlines[size + 1], deadlines[size + 2] = ends, id
      end
      local record, word = lead .. char(low) .. payload, ''
      if #record > LONG then
        -- Reads what the scripts need of a record (lib/record). Apart from what packs it, which every send defines.
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

        local function as_head(birth, flags, expires)
          return {
            birth = birth, priority = math.min(flags % EXPIRES, 9), expires = expires, transient = flags >= TRANSIENT,
          }
        end

        -- Reads what the scripts need of a record. A damaged record still has to reach the dead-letter queue, so it reads as
        -- something.
        local function read_record(record)
          if #record < 14 and (#record < 8 or has_expiry(record)) then
            return { birth = 0, priority = 4 }
          end
          return as_head(unpack_number(record, 1, 7), record:byte(8), has_expiry(record) and unpack_number(record, 9, 6) or nil)
        end
        -- The word in the state of a message whose record is long: what the scripts need of the record, and its length. So they
        -- need not read the body, since Redis cannot read a part of a hash's field. Empty for a short record.
        --    head=birth/flags/expiry/length; expiry 0: none
        local function head_word(record)
          if #record <= LONG then
            return ''
          end
          local head = read_record(record)
          return string.format(' head=%.0f/%d/%.0f/%d', head.birth, record:byte(8), head.expires or 0, #record)
        end
        word = head_word(record)
      end
      if delay > 0 or word ~= '' then
        stated[#stated + 1], stated[#stated + 2] = id, 'live - ' .. (delay > 0 and due or 0) .. ' 0 0 0 0 0 0 0' .. word
      end
      records[size + 1], records[size + 2], rows[size + 1], rows[size + 2] = id, record, score, order .. char(low) .. id
      seen[id], birth, size = true, birth + 1, size + 2
    end
  end
  if #records > 0 then
    redis.call('HSET', counters, 'birth', string.format('%.0f', birth - 1))
    redis.call('ZADD', delay > 0 and scheduled or ready, unpack(rows))
    if #stated > 0 then
      redis.call('HSET', states, unpack(stated))
    end
    if ttl > 0 then
      redis.call('ZADD', expiring, unpack(deadlines))
    end
    redis.call('HSET', messages, unpack(records)) -- from here on they are sent
    redis.call('HINCRBY', counters, 'sent', #records / 2)
    if values[2] ~= '1' and (delay == 0 or redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2] == rows[1]) then
      wake_one()
    end
  end
  return known
end
local due = tonumber(redis.call('ZSCORE', committed, member) or nil)
if not due or (due > now and early ~= '1') then
  return { 0, 0 }
end
local items, bytes, wanted, known = {}, 0, 0, {} -- items: id, payload, …
while #items == wanted and wanted < 2 * limit and bytes <= MOST do -- a list does not tell how long they are
  wanted = math.min(wanted + 2 * math.max(1, math.floor((MOST - bytes) / longest)), 2 * limit)
  local part, before = redis.call('LRANGE', staged, #items, wanted - 1), #items
  if wanted == 2 * limit and before == 0 then -- all in one
    items = part
    break
  end
  for n, item in ipairs(part) do
    items[before + n], bytes = item, bytes + #item
  end
end
if #items > 0 then
  known = add(items, 1, #items, delay, ttl)
  redis.call('LTRIM', staged, #items, -1) -- if cut off before, they are added again, which changes nothing (I12)
end
if redis.call('EXISTS', staged) == 0 then
  redis.call('ZREM', committed, member)
end
return { #items / 2, #known }
