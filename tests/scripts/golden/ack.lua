-- Done: the messages are gone.
local messages, states, history = KEYS[1], KEYS[2], KEYS[3]
local leases, claims, counters, settings, outcomes = KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
-- items from ARGV[1]: id, token
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
-- The messages that were acked are gone, and with them everything that was kept about them (I13).
local function remove_acked(ids)
  local noted, records, texts = redis.call('HGET', settings, 'outcomes'), nil, nil
  if noted then
    records, texts = redis.call('HMGET', messages, unpack(ids)), redis.call('HMGET', states, unpack(ids))
  end
  redis.call('HDEL', messages, unpack(ids)) -- from here on they are acked
  redis.call('HDEL', history, unpack(ids))
  redis.call('HDEL', states, unpack(ids)) -- the last: by it a sweep knows an ack that was cut off
  redis.call('HINCRBY', counters, 'acked', #ids)
  if noted then
    -- Notes what was acked in the outcome history, by the records and the states that there were. Statements, as in
    -- lib/take: only a queue that keeps outcomes needs them.
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
    for n, id in ipairs(ids) do
      if records[n] then -- else an ack was cut off
        local head = read_record(records[n])
        local state = parse_state(texts[n], head.birth)
        outcome('acked', id, head, state, 0, { consumer = holder(state.token) })
      end
    end
  end
end
local acked = {}
return settle(1, 2, function(id)
  acked[#acked + 1] = id
end, function()
  remove_acked(acked)
end)
