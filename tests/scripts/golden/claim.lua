-- Hands out up to `count` messages under one lease, whose id is the token: the same token again gives the same
-- deliveries and claims nothing new (I12). First it does the steps of maintenance that are due (I15), so a
-- bare claiming client is enough. The delivery count is written here, before anyone sees the message (I3).
-- Returns now, wait, then id, record, state, history for each message, or only how many. wait: 0 claim again at once,
-- -1 nothing is known to come, else the milliseconds until something does.
local messages, states, ready, scheduled, expiring = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local leases, claims, history, dead, expired = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local counters, wake, alarm, settings, outcomes = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local token, count, lease, part, consumer = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local patience, alarmed = tonumber(ARGV[6]), ARGV[7] -- alarmed: 1 where the client holds the alarm
local attributed, answer = ARGV[8], ARGV[9] -- 1 where the client says what it begins; rows or count
local seed, default_policy, lapse_error = ARGV[10], ARGV[11], ARGV[12]
local STEPS = 15 -- messages that a claim moves at most in each step of maintenance (I9)
-- The server's clock in whole milliseconds, read once a script (I11).
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local reply = { now, -1 }
local given = redis.call('HGET', claims, token)
if given then
  -- What this token was given before and still holds: the reply of a claim that is repeated (I12).
  -- The fence (I2): only the token that holds a message settles it.
  local needle_of, needle
  local function holds(token, text)
    if token ~= needle_of then
      needle_of, needle = token, ' +' .. token .. ' '
    end
    return text and text:find(needle, 1, true) ~= nil
  end
  local said = attributed == '1' and '\n' .. (redis.call('HGET', claims, token .. ':begun') or '') .. '\n'
  local first, begun = nil, not said
  for id in given:match('\n.*'):gmatch('[^\n]+') do
    local text, record = redis.call('HGET', states, id), redis.call('HGET', messages, id)
    if record and holds(token, text) then
      first, begun = first or id, begun or said:find('\n' .. id .. '\n', 1, true)
      if answer == 'rows' then
        reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = id, record, text
        reply[#reply + 1] = redis.call('HGET', history, id) or ''
      end
    end
  end
  if first then
    if not begun then -- what it was to begin with, it holds no more
      redis.call('HSET', claims, token .. ':begun', first)
    end
    if answer == 'count' then
      reply[3] = select(2, given:gsub('\n', '\n')) -- of all that it was given: so many places its list has
    end
    redis.call('ZADD', leases, now + lease, token) -- which is how the client reads this reply
    return reply
  end
end
local lapsed = redis.call('ZCOUNT', leases, '-inf', now)
local fallen_due = redis.call('ZCOUNT', scheduled, '-inf', now)
local outlived = redis.call('ZCOUNT', expiring, '-inf', now)
if lapsed + fallen_due + outlived > 0 then
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
  -- The only way into the dead-letter queue and the expiry queue. The queue's settings may send what expired to the
  -- dead letters, or have it dropped, which is counted (I14). Says where the message went: dead, expired, discarded.
  --   dead_letter: {"dead": keep|discard, "expired": expired|dead|discard, "transient": keep|discard, ...}
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
  local strategy
  local function read_strategy()
    return read_json(setting('dead_letter'))
  end

  local function discard(id)
    redis.call('HDEL', messages, id) -- from here on it is discarded
    redis.call('HDEL', history, id)
    redis.call('HDEL', states, id) -- the last: by it a sweep knows one that was cut off
    redis.call('HINCRBY', counters, 'discarded', 1)
  end

  -- told: what the outcome history says of it (lib/outcome)
  local function bury(id, state, head, part, reason, told)
    strategy = strategy or read_strategy()
    local fate = strategy[part]
    if fate ~= 'dead' and fate ~= 'discard' then
      fate = part
    end
    if fate == 'dead' and head.transient and strategy.transient == 'discard' then
      fate = 'discard'
    end
    redis.call('HINCRBY', counters, reason, 1)
    state.reason = reason
    if fate == 'discard' then
      discard(id)
    else
      state.part, state.due = fate, now
      stand(id, state, head)
    end
    outcome(reason == 'expired' and 'expired' or 'dead', id, head, state, 0, told)
    if fate == 'discard' then
      outcome('discarded', id, head, state, 0, told)
      return 'discarded'
    end
    return fate
  end
  -- The story of a message: a line an event, tab-separated (a cell is a number, a word or JSON, which holds no
  -- raw tab or newline). The first 15 lines and the last 15 stay; only the newest keeps its traceback (I6, I13).
  --   event  at  delivery  delay  consumer  error  traceback
  -- at: now, unless it is told later.
  local KEEP = 15

  local function remember(id, event, delivery, delay, consumer, failure, at)
    local line = table.concat({ event, at or now, delivery, delay, consumer, failure }, '\t')
    local text = redis.call('HGET', history, id)
    if text then
      local lines = {}
      for old in text:gmatch('[^\n]+') do
        lines[#lines + 1] = old
      end
      if #lines > 0 then
        lines[#lines] = lines[#lines]:gsub('\t[^\t]*$', '\t')
      end
      if #lines >= 2 * KEEP then
        table.remove(lines, KEEP + 1)
      end
      lines[#lines + 1] = line
      line = table.concat(lines, '\n')
    end
    redis.call('HSET', history, id, line)
  end
  -- The wait before the n-th redelivery in whole milliseconds: RedeliveryPolicy.delay_ms, bit for bit, since
  -- both do the same operations on doubles in the same order. Whoever changes one changes the other.
  --   redelivery: RedeliveryPolicy.as_wire(); r: -1 to 1; previous: the wait before (nil: worked out)
  -- cjson.null is a true value in Redis, so a field that can be null is asked for its type.
  local CEILING, JAVA_LONG = 315360000000, 2 ^ 63 -- ten years; the largest long, as near as a double comes

  local function grown(p, n) -- held, as 0 * inf is no number
    return p.initial_delay * math.min(p.multiplier ^ (n - 1), JAVA_LONG)
  end

  local function rq_delay(p, n, r)
    local limit = type(p.max_delay) == 'number' and p.max_delay or CEILING
    local listed = type(p.delays) == 'table' and p.delays[math.min(n, #p.delays)]
    local base = listed or math.min(grown(p, n), limit)
    local wait = base + base * (p.collision_avoidance * r)
    return math.floor(wait > limit and 2 * limit - wait or wait)
  end

  local function java_spread(p, wait, r)
    return math.floor(math.min(wait + wait * (p.collision_avoidance * r), JAVA_LONG))
  end

  local function artemis_delay(p, n, r)
    return math.min(java_spread(p, math.floor(math.min(grown(p, n), JAVA_LONG)), r), p.max_delay)
  end

  local function activemq_delay(p, n, r, previous)
    local wait, limit = p.initial_delay, type(p.max_delay) == 'number' and p.max_delay or JAVA_LONG
    if previous and n > 1 then
      wait, n = previous, 2 -- one step: the scripts know the wait before, so their work is bounded (I9)
    end
    for _ = 2, n do
      if wait > 0 and p.multiplier > 1 then
        wait = math.min(math.floor(math.min(wait * p.multiplier, JAVA_LONG)), limit)
      else
        wait = math.max(p.redelivery_delay, 0) -- below 0 Python refuses; a script has to go on
      end
      wait = java_spread(p, wait, r)
    end
    return wait
  end

  local arithmetics = { rq = rq_delay, artemis = artemis_delay, activemq = activemq_delay }

  local function policy_delay(redelivery, n, r, previous)
    return arithmetics[redelivery.arithmetic](redelivery, n, r, previous)
  end
  -- What becomes of a message that failed: redelivered by the policy, dead, or expired (I5, I6, I7).
  -- The policy is the one that stands in Redis, so that whoever sweeps judges a lapse as the consumer would.
  -- The redelivery policy of a text; nil where it cannot be read: damaged, or of an arithmetic that a newer version
  -- brought. That must not stop the queue.
  local NEEDED = { rq = 'multiplier', artemis = 'max_delay', activemq = 'redelivery_delay' } -- beside what all need

  local function is_number(value)
    return type(value) == 'number' and value == value -- NaN is not itself
  end

  local function read_policy(text)
    local found = read_json(text).redelivery
    if type(found) ~= 'table' or not NEEDED[found.arithmetic] then
      return nil
    end
    local sound = is_number(found.initial_delay) and is_number(found.multiplier)
    sound = sound and is_number(found.collision_avoidance) and is_number(found[NEEDED[found.arithmetic]])
    for _, wait in ipairs(type(found.delays) == 'table' and found.delays or {}) do
      sound = sound and is_number(wait)
    end
    return sound and found or nil
  end
  local TEN_YEARS = 315360000000 -- milliseconds; no delay is longer
  local redelivery, drawn

  -- The client draws one number a call; golden-ratio steps from there spread a batch evenly over [-1, 1).
  local function draw()
    drawn = drawn and (drawn + 0.6180339887498949) % 1 or tonumber(seed)
    return 2 * drawn - 1
  end

  -- Says what became of it: 'dead', 'expired', 'discarded', 'kept' (in its dead-letter queue) or 'redelivered <delay>'.
  local function judge(id, state, head, event, failure)
    redelivery = redelivery or read_policy(setting('redelivery')) or read_policy(default_policy)
    if state.part ~= 'live' then
      stand(id, state, head) -- no dead-letter queue of a dead-letter queue: it stays where it is
      return 'kept'
    end
    state[event] = state[event] + 1
    state.charged = state.charged + (failure.charge and 1 or 0)
    redis.call('HINCRBY', counters, event, 1)
    failure.cause = event
    local limit = redelivery.max_redeliveries
    local spent = type(limit) == 'number' and state.charged > limit
    local delay = 0
    if not spent then
      delay = failure.delay or policy_delay(redelivery, math.max(state.charged, 1), draw(), state.delay)
      delay = delay >= 0 and math.min(delay, TEN_YEARS) or 0 -- a damaged policy may make it NaN
    end
    remember(id, event, state.deliveries, delay, failure.consumer, failure.error)
    local expiry = expiry_of(head, state)
    if spent then
      return bury(id, state, head, 'dead', 'exhausted', failure)
    elseif expiry and now + delay >= expiry then
      return bury(id, state, head, 'expired', 'expired', failure)
    end
    state.delay = delay
    if delay > 0 then -- without a delay it returns to its old place (I8)
      state.due = now + delay
      if state.due == math.floor(head.birth / 4096) then -- see lib/place
        state.due = state.due + 1
      end
    end
    stand(id, state, head, delay > 0)
    outcome('redelivered', id, head, state, delay, failure)
    return 'redelivered ' .. delay
  end
  -- The sweep of lapsed leases: what a claim still held comes back by the policy, charged (I15). Where its holder said
  -- which handlers run (begin.lua) only those are charged: the rest is not what it died of, and goes back as it came.
  -- A claim larger than the limit is swept in parts: what is swept leaves its place in the list empty (lib/claimed),
  -- the lease stays until the last part.
  -- The fence (I2): only the token that holds a message settles it.
  local needle_of, needle
  local function holds(token, text)
    if token ~= needle_of then
      needle_of, needle = token, ' +' .. token .. ' '
    end
    return text and text:find(needle, 1, true) ~= nil
  end
  -- The lease goes with the last message of its claim.
  local function let_go(token, count)
    if redis.call('HINCRBY', claims, token .. ':held', -count) <= 0 then
      redis.call('HDEL', claims, token, token .. ':held', token .. ':begun')
      redis.call('ZREM', leases, token) -- the last: by it a sweep finds what was cut off
    end
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
  -- A message goes back unseen, or unfairly held: not charged, due now, at its old place (I8).
  -- consumer: who held it, for the outcome history
  local function give_back(id, state, head, consumer)
    state.released = state.released + 1
    stand(id, state, head)
    redis.call('HINCRBY', counters, 'released', 1)
    outcome('released', id, head, state, 0, { consumer = consumer })
  end
  -- Whether a message in a lapsed claim's list is nowhere: a stranger wrote over its state while it was held, so that no
  -- lease that there is holds it, and no index has it, in either form of its member (lib/place).
  local function stranded(id, state, head)
    if state.mark == '+' then
      return not redis.call('ZSCORE', leases, state.token)
    end
    local born = math.floor(head.birth / 4096)
    for _, due in ipairs({ state.due, born, born + 1 }) do
      local member = member_of(id, head, due)
      for _, index in ipairs({ ready, scheduled, dead, expired }) do
        if redis.call('ZSCORE', index, member) then
          return false
        end
      end
    end
    return true
  end

  local function sweep_message(id, token, consumer, begun)
    local text = redis.call('HGET', states, id)
    local held = holds(token, text)
    local record = held and held_record(id) or redis.call('HGET', messages, id)
    if not record then
      return held and 1 or 0
    end
    local head = read_record(record)
    local state = parse_state(text, head.birth)
    if not held and not stranded(id, state, head) then
      return 0
    end
    state.token = '' -- its holder did not settle it, and is not to be told so when it repeats a call
    if begun and not begun:find('\n' .. id .. '\n', 1, true) then
      give_back(id, state, head, consumer)
    else
      judge(id, state, head, 'lapsed', { charge = true, consumer = consumer, error = lapse_error })
    end
    return held and 1 or 0
  end

  local function sweep(limit)
    local looked = 0
    for _, token in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, limit)) do
      if looked == limit then
        break
      end
      local claim = redis.call('HMGET', claims, token, token .. ':begun')
      local consumer, list = (claim[1] or ''):match('^([^\n]*)\n?(.*)$')
      local begun = claim[2] and '\n' .. claim[2] .. '\n'
      local swept, place = 0, 1 -- the place after what was looked at
      local first, last = list:find('[^\n]+')
      while first and looked < limit do
        looked, place = looked + 1, last + 1
        swept = swept + sweep_message(list:sub(first, last), token, consumer, begun)
        first, last = list:find('[^\n]+', place)
      end
      if not first then
        redis.call('HDEL', claims, token, token .. ':held', token .. ':begun')
        redis.call('ZREM', leases, token)
      else
        local empty = list:sub(1, place - 1):gsub('[^\n]+', '')
        redis.call('HSET', claims, token, consumer .. '\n' .. empty .. list:sub(place))
        if swept > 0 then -- minus nothing is "-0", which Redis does not count with
          let_go(token, swept)
        end
      end
    end
    return looked
  end
  -- The move of due messages: from the scheduled to the ready. Only the index moves; the state says the same.
  local function promote(limit)
    local rows = redis.call('ZRANGEBYSCORE', scheduled, '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit)
    local places, members = {}, {}
    for i = 1, #rows, 2 do
      members[#members + 1] = rows[i]
      places[#places + 1] = score_of(9 - rows[i]:byte(1), tonumber(rows[i + 1]))
      places[#places + 1] = rows[i]
    end
    if #members > 0 then
      redis.call('ZADD', ready, unpack(places))
      redis.call('ZREM', scheduled, unpack(members))
    end
    return #members
  end
  -- Messages whose time to live is over, found by an index of those that have one and wait (I7).
  -- The end of the time to live of a message that waits (I7).
  local function expire_message(id, state, head)
    local member = member_of(id, head, state.due)
    bury(id, state, head, 'expired', 'expired')
    redis.call('ZREM', ready, member)
    redis.call('ZREM', scheduled, member)
    redis.call('ZREM', expiring, id)
  end
  local function expire(limit)
    local ids = redis.call('ZRANGEBYSCORE', expiring, '-inf', now, 'LIMIT', 0, limit)
    for _, id in ipairs(ids) do
      local record, text = redis.call('HGET', messages, id), redis.call('HGET', states, id)
      local head = record and read_record(record)
      local state = record and parse_state(text, head.birth)
      if state and state.part == 'live' and state.mark == '-' then
        expire_message(id, state, head)
      else
        redis.call('ZREM', expiring, id) -- left behind by a script that was cut off
      end
    end
    return #ids
  end
  sweep(STEPS)
  promote(STEPS + count)
  expire(STEPS)
  if part ~= 'live' and redis.call('ZCARD', ready) > 0 then
    -- One token, never more: it wakes one waiting client, whose claim passes it on where work is left. So no one
    -- polls, and a message wakes one client of a thousand.
    local function wake_one()
      if redis.call('LLEN', wake) == 0 then
        redis.call('LPUSH', wake, 1)
        redis.call('PEXPIRE', wake, 5000) -- who comes later looks before it waits; so none is left behind (I13)
      end
    end
    wake_one()
  end
end

local source = part == 'dead' and dead or part == 'expired' and expired or ready
local room = count
if part == 'live' then
  -- How many messages a claim may take: none while the queue is paused, and with those in flight never more than the
  -- queue's max_in_flight. What waits for its redelivery is not in flight; a dead letter that someone has claimed is.
  local said = redis.call('HMGET', settings, 'paused', 'max_in_flight')
  local most = tonumber((said[2] or ''):match('^%d+$') or nil)
  if said[1] == '1' then
    room = 0
  elseif most and most > 0 then
    local in_flight = redis.call('HLEN', messages)
    for _, index in ipairs({ ready, scheduled, dead, expired }) do
      in_flight = in_flight - redis.call('ZCARD', index)
    end
    room = math.max(0, math.min(count, most - in_flight))
  end
end
if room > 0 then
  -- Leases the messages at the head of `source` to the token, and adds them to the reply. Statements, not a
  -- function: to define a function costs Redis as much as a command, and most claims need none. What only some
  -- messages need is defined when the first of them comes.
  local rows = redis.call('ZRANGE', source, 0, room - 1)
  if #rows > 0 then
    local ids, chosen, seen, leased, mortal, gone, touched = {}, {}, {}, {}, {}, {}, nil
    for n, row in ipairs(rows) do
      ids[n] = row:sub(row:byte(1) < 16 and 9 or 3) -- as lib/id_of
    end
    local records, texts = redis.call('HMGET', messages, unpack(ids)), redis.call('HMGET', states, unpack(ids))
    -- A first delivery, from where it was born. Over 64 bytes, or Redis would keep a few states in a list that it
    -- searches from the beginning.
    local fresh = 'live +' .. token .. ' 0000000000000 1 0 0 0 0 0 0000000000000'
    for n = 1, #ids do
      local id, text = ids[n], texts[n]
      local record = not seen[id] and records[n] -- a send that was cut off and repeated has two rows
      local line = record and fresh
      if record and (text or math.floor((record:byte(8) or 0) / 16) % 2 == 1) then -- or it has an expiry
        touched = touched or (function()
          -- For a message that was touched before or has a time to live: its state once leased; nil where the row of the
          -- index is stale (a script was cut off), or the message has no redelivery or no time left.
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
          -- The only way into the dead-letter queue and the expiry queue. The queue's settings may send what expired to the
          -- dead letters, or have it dropped, which is counted (I14). Says where the message went: dead, expired, discarded.
          --   dead_letter: {"dead": keep|discard, "expired": expired|dead|discard, "transient": keep|discard, ...}
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
          local strategy
          local function read_strategy()
            return read_json(setting('dead_letter'))
          end

          local function discard(id)
            redis.call('HDEL', messages, id) -- from here on it is discarded
            redis.call('HDEL', history, id)
            redis.call('HDEL', states, id) -- the last: by it a sweep knows one that was cut off
            redis.call('HINCRBY', counters, 'discarded', 1)
          end

          -- told: what the outcome history says of it (lib/outcome)
          local function bury(id, state, head, part, reason, told)
            strategy = strategy or read_strategy()
            local fate = strategy[part]
            if fate ~= 'dead' and fate ~= 'discard' then
              fate = part
            end
            if fate == 'dead' and head.transient and strategy.transient == 'discard' then
              fate = 'discard'
            end
            redis.call('HINCRBY', counters, reason, 1)
            state.reason = reason
            if fate == 'discard' then
              discard(id)
            else
              state.part, state.due = fate, now
              stand(id, state, head)
            end
            outcome(reason == 'expired' and 'expired' or 'dead', id, head, state, 0, told)
            if fate == 'discard' then
              outcome('discarded', id, head, state, 0, told)
              return 'discarded'
            end
            return fate
          end
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
          local spent
          return function(id, record, stated, row)
            local head = read_record(record)
            local state = parse_state(stated, head.birth)
            local as_stated = state.part == part and state.due <= now and member_of(id, head, state.due) == row
            if state.mark == '+' and not redis.call('ZSCORE', leases, state.token) then
              state.mark = '-' -- a stranger's word: nobody holds it
            end
            if state.mark == '+' or not as_stated and left_over(source, row, id, state, head) then
              return nil
            end
            state.part = part
            if part == 'live' and state.charged > 0 then -- the limit may have been lowered since it failed (I6)
              spent = spent or (function()
                -- Whether so many charged failures are more than the policy that stands in Redis allows, just now. Of a policy that
                -- cannot be read there is no limit here: the next failure is judged by the default one.
                -- The redelivery policy of a text; nil where it cannot be read: damaged, or of an arithmetic that a newer version
                -- brought. That must not stop the queue.
                local NEEDED = { rq = 'multiplier', artemis = 'max_delay', activemq = 'redelivery_delay' } -- beside what all need

                local function is_number(value)
                  return type(value) == 'number' and value == value -- NaN is not itself
                end

                local function read_policy(text)
                  local found = read_json(text).redelivery
                  if type(found) ~= 'table' or not NEEDED[found.arithmetic] then
                    return nil
                  end
                  local sound = is_number(found.initial_delay) and is_number(found.multiplier)
                  sound = sound and is_number(found.collision_avoidance) and is_number(found[NEEDED[found.arithmetic]])
                  for _, wait in ipairs(type(found.delays) == 'table' and found.delays or {}) do
                    sound = sound and is_number(wait)
                  end
                  return sound and found or nil
                end
                local stands = read_policy(setting('redelivery') or default_policy)
                local allowed = stands and stands.max_redeliveries
                return function(charged)
                  return type(allowed) == 'number' and charged > allowed
                end
              end)()
              if spent(state.charged) then
                bury(id, state, head, 'dead', 'exhausted')
                return nil
              end
            end
            local expiry = part == 'live' and expiry_of(head, state)
            if expiry and expiry <= now then
              bury(id, state, head, 'expired', 'expired')
              return nil
            end
            state.deliveries, state.mark, state.token = state.deliveries + 1, '+', token
            return format_state(state)
          end
        end)()
        line = touched(id, record, text, rows[n])
        mortal[#mortal + 1] = id
      end
      if not records[n] then
        gone[#gone + 1] = id
      elseif line then
        local size = #reply
        chosen[#chosen + 1], seen[id] = id, true
        leased[2 * #chosen - 1], leased[2 * #chosen] = id, line
        if answer == 'rows' then
          reply[size + 1], reply[size + 2], reply[size + 3] = id, record, line
          reply[size + 4] = text and redis.call('HGET', history, id) or ''
        end
      end
    end
    if #chosen > 0 then
      if answer == 'count' then
        reply[3] = #chosen
      end
      redis.call('ZADD', leases, now + lease, token)
      redis.call('HSET', claims, token, consumer .. '\n' .. table.concat(chosen, '\n'), token .. ':held', #chosen)
      if attributed == '1' then -- its holder begins with the first at once, and says so of the others
        redis.call('HSET', claims, token .. ':begun', chosen[1])
      end
      redis.call('HSET', states, unpack(leased)) -- from here on they are leased
    end
    if #gone > 0 then -- left behind by a send or a purge that was cut off
      redis.call('HDEL', states, unpack(gone))
      redis.call('HDEL', history, unpack(gone))
    end
    redis.call('ZREM', source, unpack(rows))
    if #mortal > 0 then
      redis.call('ZREM', expiring, unpack(mortal))
    end
  end
end
if part == 'live' then
  local left = redis.call('ZCARD', ready) > 0
  if left and room > 0 then
    -- One token, never more: it wakes one waiting client, whose claim passes it on where work is left. So no one
    -- polls, and a message wakes one client of a thousand.
    local function wake_one()
      if redis.call('LLEN', wake) == 0 then
        redis.call('LPUSH', wake, 1)
        redis.call('PEXPIRE', wake, 5000) -- who comes later looks before it waits; so none is left behind (I13)
      end
    end
    wake_one()
    reply[2] = 0
  else
    redis.call('DEL', wake)
    if #reply == 2 and patience > 0 then
      -- Of all the clients that wait one is told when the next thing falls due (a scheduled message, a lease, a time to
      -- live); the others sleep on. Without it a thousand of them would wake in the same millisecond.
      local event
      for _, index in ipairs({ scheduled, leases, expiring }) do
        local at = tonumber(redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')[2])
        if at and (not event or at < event) then
          event = at
        end
      end
      local taken = tonumber(redis.call('GET', alarm) or nil)
      local another = event and taken and taken > now and taken <= event and alarmed ~= '1' -- who holds the alarm keeps it
      if event and event <= now + patience and not another then
        reply[2] = math.max(event - now, 0)
        redis.call('SET', alarm, event, 'PX', reply[2] + 1000)
      end
    end
  end
  if alarmed == '1' and (#reply > 2 or patience == 0) then -- another has to watch the time
    -- One token, never more: it wakes one waiting client, whose claim passes it on where work is left. So no one
    -- polls, and a message wakes one client of a thousand.
    local function wake_one()
      if redis.call('LLEN', wake) == 0 then
        redis.call('LPUSH', wake, 1)
        redis.call('PEXPIRE', wake, 5000) -- who comes later looks before it waits; so none is left behind (I13)
      end
    end
    redis.call('DEL', alarm)
    wake_one()
  end
end
return reply
