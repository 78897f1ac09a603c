-- Adds messages to the queue; a call whose reply was lost can be repeated. Returns the places (1, 2, …) of the items
-- that the queue knew already.
local messages, states, ready, scheduled = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local expiring, counters, wake, settings = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local delay, ttl = tonumber(ARGV[1]), tonumber(ARGV[2]) -- milliseconds; ttl 0: none
-- items from ARGV[3]: id, payload (its first byte the flags, without the expiry's)
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
return add(ARGV, 3, #ARGV, delay, ttl)
