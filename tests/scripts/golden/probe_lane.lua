-- Lets one message of a dependency through that is down or paused, to test it now, for an operator. Returns 1, or 0 if none
-- waits.
-- drains
local number, lane, seed, act = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] -- lane: of the dependency; act: as in
-- lib/note_act
local messages, states, ready, scheduled, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local expired, leases, settings, wake, audit = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local seats, gates, lanes, slots, sender = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
-- Whether this call was done before (I12): then the count that was recorded with it, otherwise false. The register of a
-- sender holds the number of its last call that was done here. A sender makes one call at a time, so a number that is not
-- higher is the same call again, or an older one that arrives late. A value, not a function, since to define one costs
-- Redis as much as a command.
local register = redis.call('GET', sender)
local done = register and tonumber(number) <= tonumber(register:match('^%d+') or 0) and tonumber(register:match('%d*$'))
if done then
  return done
end
-- A setting that is JSON, as a table; an empty one if it cannot be read, since that must not stop the queue.
local function read_json(text)
  local decoded, value = pcall(cjson.decode, text or '')
  return decoded and type(value) == 'table' and value or {}
end
-- The special state of a lane: a table, as JSON in `lanes`; false: none, as for most lanes. While a lane has one, the
-- settings have `gated`, or `limited` if it is a limit; lib/tend removes that.
--   of, name: key or dependency, and its text; due: when an event of the lane is due, as in `gates`; nil: none is
--   paused: since when it is paused; ends: when that ends; nil: when an operator resumes it
--   by: the operator who paused it, as JSON; nil: a handler did (lib/pause_key), or an earlier version
--   limit: how many messages of a key may hold a seat, if that differs from the rule
--   open: since when its breaker is; probe: when the next probe is due; probes: how many there were; wait: milliseconds
--   after it until another one; idle: no message waited at the last one; hung: since when a call that was let through hangs
--   (lib/end_pass); error: the newest, the first cell of a cause
--   died, dead: how many messages died of the failures that opened it, and the ids of the newest of them
--   drains: since when success lets its messages in; drain: when the next step of that is due; most: how many messages were
--   acked by the last ack of one of them; trusts: until when failures do not open it, since an operator closed it
local lanes_read = {}

local function read_lane(number)
  if lanes_read[number] == nil then
    local text = redis.call('HGET', lanes, string.format('%.0f', number))
    lanes_read[number] = text and read_json(text) or false
  end
  return lanes_read[number]
end
-- The score in `scheduled` of a message that waits for a seat of its lane is this and the lane. As a time: the year 2248.
local BLOCKED = 2 ^ 43
-- A parked message that failed as a probe is behind the others of its lane: this follows the lane in its score in
-- `scheduled`. So the lane of a dependency is a range of two scores, wherever its messages are read or counted. In `seats`
-- it follows the lane in the score of a pass whose call did not end in time (lib/end_pass).
local TRIED = '.5'
-- A whole number as text, for an argument of a command: Redis would print a number with up to 17 digits, which takes longer
-- than most commands.
local WHOLE = string.format('%d', 2 ^ 43) == '8796093022208' and '%d' or '%.0f' -- %d is faster, and has 32 bits on some servers

local function digits(number)
  return string.format(WHOLE, number)
end
-- Reads the lane of a dependency: how many messages wait in it; and the first rows, those that failed as probes last.
local SPARE = 20 -- more rows that it reads, in place of those that are not let through (I9)

local function count_parked(number)
  local score = digits(BLOCKED + number)
  return redis.call('ZCOUNT', scheduled, score, score .. TRIED)
end

local function parked_rows(number, count)
  local score = digits(BLOCKED + number)
  return redis.call('ZRANGEBYSCORE', scheduled, score, score .. TRIED, 'LIMIT', 0, count + SPARE)
end
-- The server's clock in whole milliseconds, read once per script (I11).
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
-- A field of the queue's settings; false if it is absent. A script reads them from Redis once.
local FIELDS = {
  redelivery = 1, dead_letter = 2, outcomes = 3, per_key = 4, breaker = 5, gated = 6, rate = 7, limited = 8, narrowed = 9,
  max_in_flight = 10,
}
local found
local function setting(name)
  found = found or redis.call(
    'HMGET', settings, 'redelivery', 'dead_letter', 'outcomes', 'per_key', 'breaker', 'gated', 'rate', 'limited',
    'narrowed', 'max_in_flight'
  )
  return found[FIELDS[name]]
end
-- When the dependency of a queue counts as down, by its settings; milliseconds. A damaged setting never opens the breaker.
--   breaker: distinct=N within=Nms share=N probe=Nms longest_probe=Nms
--   breaker.distinct: this many different messages failed within breaker.within, and at least this share of all attempts:
--   breaker.share;
--   breaker.probe: until the first probe; breaker.longest: the longest time between two probes
local said = setting('breaker') or ''
local breaker = {
  distinct = tonumber(said:match('^distinct=(%d+) ') or nil) or math.huge,
  within = tonumber(said:match(' within=(%d+)ms') or nil) or 0,
  share = tonumber(said:match(' share=([%d.]+)') or nil) or 1,
  probe = tonumber(said:match(' probe=(%d+)ms') or nil) or 1000,
  longest = tonumber(said:match(' longest_probe=(%d+)ms') or nil) or 30000,
}
-- Precedes, in `seats`, the id of a message that was let through the gate of its dependency; no id has this byte.
local PASS = '\1'
-- The id in a member of an index (lib/order describes the bytes before it).
local function id_of(member)
  return member:sub(member:byte(1) < 16 and 9 or 3)
end
-- Whether a later version wrote a message in a form of its own: its state line begins with the version that reads it,
-- ">=1.4 ", or its record has that after birth and flags of 0x0F. Only the holder of such a message is known, since every
-- form has +token or -token. The message is left alone; the index rows that lead to it are put off, so that it blocks no
-- other message, and a version that can read it finds it.
local MARK, FLAGS, AGAIN = '^>=%d[%d.]* ', 0x0F, 60000 -- milliseconds until it is checked again

local function is_later(record, text)
  return text and text:find(MARK) ~= nil or record:byte(8) == FLAGS and record:find(MARK, 9) ~= nil
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
-- The head of a message: the part of its record that the scripts need, from its record and state. The state of a long one
-- has it (lib/head_word), and that counts: if a change of priority was cut off, the record may have the old one.
local function head_in(record, text)
  local birth, flags, expires, lane, needs = stated_head(text)
  if birth then
    return as_head(birth, flags, expires > 0 and expires or nil, lane, needs)
  end
  return read_record(record)
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
-- Whether a row of a lane belongs to a message that waits there. One of a later form does: only its version can tell more.
-- A state that says dead does not tell, since a purge that was cut off may have left it; the row of the dead letter does.
--   text, record: its state and its record, as they were read
local function is_blocked_row(row, id, text, record)
  if not record then
    return false
  elseif not text and row:sub(2, 8) == record:sub(1, 7) and row:byte(1) == 9 - record:byte(8) % 16 then
    return true -- as for most: no script has touched it
  elseif is_later(record, text) then
    return true
  end
  local head = head_in(record, text)
  local state = parse_state(text, head.birth)
  return state.mark == '-' and member_of(id, head, state.due) == row and not left_over(scheduled, row, id, state, head)
end
-- The milliseconds between two messages by a rate: N/SPAN, such as 100/s or 5/10m; nil: it cannot be read: no limit.
local LONGEST = 2 ^ 42 -- milliseconds
local UNITS = { ms = 1, s = 1000, m = 60000, h = 3600000, d = 86400000 }

local function interval_of(rate)
  local count, spans, unit = rate:match('^(%d+)/(%d*)(%a+)$')
  count, spans = tonumber(count), tonumber(spans == '' and 1 or spans)
  if not count or count < 1 or not spans or spans < 1 or not UNITS[unit] then
    return nil
  end
  local interval = spans * UNITS[unit] / count
  return interval > 0 and interval <= LONGEST and interval or nil
end
-- The queue's rule for messages with a key: how many of a lane may hold a seat at a time, when one gives its seat back
-- before it is gone, and how often one is handed out. A rule that cannot be read counts as off: no message waits for
-- another.
--   per_key: order, order hold, limit N or fair N, each perhaps followed by rate R (lib/interval_of); rate R; off: no
--   longer a rule, and messages may still be blocked
--   rule.limit: seats of a lane; rule.of_each: a lane may have a limit of its own (lib/limit_of); rule.in_order: a seat is
--   kept until the message is gone or dead; rule.holds: even by a dead letter;
--   rule.in_turn: a seat is given back when the message is handed out; rule.interval: milliseconds from one that is handed
--   out to the next; nil: keys have no rate
local per_key_text = setting('per_key') or ''
local mode, rate = per_key_text:match('^(.-) ?rate (%S+)$')
local word, detail = (mode or per_key_text):match('^(%a*) ?(%w*)$')
local interval = rate and interval_of(rate)
local seats_of_lane = (word == 'limit' or word == 'fair') and tonumber(detail) or (word == 'order' or mode == '') and 1 or 0
local is_read = seats_of_lane > 0 and (interval or not rate)
local rule = {
  limit = is_read and seats_of_lane or math.huge, of_each = is_read and word == 'limit',
  in_order = word == 'order', holds = word == 'order' and detail == 'hold', in_turn = word == 'fair' or mode == '',
  interval = is_read and interval or nil,
}
-- Whether claims hand out nothing of a lane (lib/read_lane), except messages that were let through its gate.
local function is_closed(number)
  local lane = (lanes_read[number] or setting('gated')) and read_lane(number)
  return lane and (lane.open or lane.paused and (not lane.ends or lane.ends > now)) and true or false
end
-- How many messages of a lane may hold a seat: the limit of the rule, or the lane's own (lib/read_lane).
local function limit_of(number)
  local lane = rule.of_each and (lanes_read[number] or setting('limited')) and read_lane(number)
  return lane and tonumber(lane.limit) or rule.limit
end
-- If keys have a rate, this follows the lane in the score of a seat until its message is handed out: one message of a lane
-- at most is in that state.
local BY_RATE = '.5'
-- How many messages of a lane may be let in: as many as seats are free; if keys have a rate, one when its slot has passed,
-- unless one that was let in so is still ready; below 0: so many have a seat too many. And the score of the seat that it takes.
local function free_seats(lane)
  local score = digits(lane)
  local free = limit_of(lane) - redis.call('ZCOUNT', seats, score, score .. BY_RATE)
  if rule.interval and free > 0 then
    -- When the next message of a lane may be let in by the rate of keys; nil: now. A time further ahead than a rate lets a
    -- message wait counts as now: the clock stepped back.
    local function slot_of(lane)
      local at = tonumber(redis.call('ZSCORE', slots, string.format('%.0f', lane)) or nil)
      return at and at > now and at <= now + rule.interval and at or nil
    end
    free = not slot_of(lane) and redis.call('ZCOUNT', seats, score .. BY_RATE, score .. BY_RATE) == 0 and 1 or 0
  end
  return free, rule.interval and score .. BY_RATE or score
end
-- The score of the seat that a message of a lane takes when it is let in.
local function seat_in(lane)
  return rule.interval and digits(lane) .. BY_RATE or digits(lane)
end
-- Gives a message a seat of its lane, if it may have one: it holds one already, or one is free, and no other message of the
-- lane is blocked, and the lane is not closed. So no message overtakes a blocked one. Returns whether it may be ready; if
-- not, its row belongs in `scheduled`, at BLOCKED + lane; or at the slot that is returned, where it waits with its seat. A
-- seat is a member of a set: taking one twice, or giving one back twice, changes nothing.
--   row: its own; a row of the same id may have been left behind by a script that was cut off
--   full: the lanes that were found full, for a call that only enters messages; nil: check each time
local function enter(id, row, lane, full)
  if rule.limit == math.huge then
    return true
  end
  local has_room = not (full and full[lane] or is_closed(lane))
  if has_room then
    local score = digits(BLOCKED + lane)
    local head = redis.call('ZRANGEBYSCORE', scheduled, score, score, 'LIMIT', 0, 1)[1]
    -- If keys have a rate, the head may wait past its slot, and leave: lib/pass_slots then lets in the new head.
    has_room = (not head or head == row and not rule.interval) and free_seats(lane) > 0
  end
  if has_room then
    redis.call('ZADD', seats, seat_in(lane), id) -- before its row in `ready`
    return true
  elseif full then
    full[lane] = true
  end
  local own = redis.call('ZSCORE', seats, id)
  if own and rule.interval then
    local function slot_of(lane)
      local at = tonumber(redis.call('ZSCORE', slots, string.format('%.0f', lane)) or nil)
      return at and at > now and at <= now + rule.interval and at or nil
    end
    -- If keys have a rate: whether a message that holds a seat of its lane may be ready now. If not, with ordered keys, also
    -- its slot: the message keeps its seat and is due then, since no other message is let in before.
    --   own: the score of its seat
    local function comes_by_rate(id, lane, own)
      local slot = own == lane and slot_of(lane)
      if slot then
        return false, rule.in_order and slot or nil
      elseif own == lane then
        local score = digits(lane) .. BY_RATE
        if redis.call('ZCOUNT', seats, score, score) > 0 then
          return false
        end
        redis.call('ZADD', seats, score, id)
      end
      return true
    end
    return comes_by_rate(id, lane, tonumber(own))
  end
  return own ~= false -- its own seat counts as free
end
-- Puts one token on the list, never more. It wakes one waiting client, whose claim passes it on if messages are left. So no
-- client polls, and a message wakes one of a thousand.
local function wake_one()
  if redis.call('LLEN', wake) == 0 then
    redis.call('LPUSH', wake, 1)
    redis.call('PEXPIRE', wake, 5000) -- a client claims before it waits, so the token may expire; none is left behind (I13)
  end
end
-- Lets blocked messages of a dependency through its gate: each is ready with a pass, if it has or gets a seat of its key,
-- otherwise it waits for that in the lane of its key. Record and state are checked, as in lib/let_in. A pass ends in time
-- (lib/end_pass): `gates` has when. Returns how many it let through.
--   rows: of the lane; count: the most that it lets through

-- Whether the message may be ready now; if not, also the lane of its key.
local function has_seat(id, row, record)
  local lane = read_record(record).lane
  if not lane or not is_closed(lane) and enter(id, row, lane) then
    return true
  end
  return false, lane
end

local function let_through(number, rows, count)
  local through, seen = 0, {}
  for _, row in ipairs(rows) do
    local id = id_of(row)
    local record = not seen[row] and redis.call('HGET', messages, id)
    if through >= count then
      break
    elseif not seen[row] and not is_blocked_row(row, id, redis.call('HGET', states, id), record) then
      redis.call('ZREM', scheduled, row)
    elseif not seen[row] then
      local seated, lane = has_seat(id, row, record)
      if seated then
        redis.call('ZADD', gates, digits(now + breaker.longest), PASS .. id) -- first: no pass is without an end
        redis.call('ZADD', seats, number, PASS .. id)
        redis.call('ZADD', ready, score_of(9 - row:byte(), now), row)
        redis.call('ZREM', scheduled, row)
        through = through + 1
      else
        redis.call('ZADD', scheduled, BLOCKED + lane, row)
        redis.call('ZREM', seats, id) -- with ordered keys it kept one
      end
    end
    seen[row] = true
  end
  if through > 0 then
    wake_one()
  end
  return through
end
-- Writes the special state of a lane (lib/read_lane), and when its next event is due: a probe, a step of the drain, the end of
-- a pause, or of the trust of an operator. nil: it has none any more, but for a limit of its own.

-- When its next event is due; nil: none is. A pause ends only by its own time.
local function next_event(lane)
  if lane.paused then
    return lane.ends
  end
  return lane.open and (lane.probe or now) or lane.drains and (lane.drain or now) or lane.trusts
end

local function write_lane(number, lane)
  local name, before = string.format('%.0f', number), lanes_read[number]
  lane = lane or before and before.limit and { of = before.of, name = before.name, limit = before.limit } or nil
  local is_closed_at_times = lane and (lane.paused or lane.open or lane.drains or lane.trusts)
  if lane and not is_closed_at_times and not lane.limit then
    lane = nil
  end
  lanes_read[number] = lane or false
  if not lane then
    redis.call('HDEL', lanes, name)
    redis.call('ZREM', gates, name)
    return
  end
  if is_closed_at_times then
    redis.call('HSET', settings, 'gated', 1)
  end
  if lane.limit then
    redis.call('HSET', settings, 'limited', 1)
  end
  lane.due = is_closed_at_times and next_event(lane) or nil
  if lane.due then
    redis.call('ZADD', gates, string.format('%.0f', lane.due), name)
  else
    redis.call('ZREM', gates, name)
  end
  redis.call('HSET', lanes, name, cjson.encode(lane)) -- from here on it is in force
end
-- Lets messages of a dependency through to test it: the first of its lane, its newest, and any one, so that neither bad heads
-- nor bad newcomers can keep its breaker open. Returns how many.
--   count: three, or fewer: each time another one of them comes first; any: which one, from 0 to 1
local function let_probe(number, lane, count, any)
  local first = digits(BLOCKED + number)
  local last = first .. TRIED
  local head = redis.call('ZRANGEBYSCORE', scheduled, first, last, 'LIMIT', 0, 1)[1]
  if not head then
    return 0
  end
  local newest = redis.call('ZRANGE', scheduled, first, first, 'BYSCORE', 'REV', 'LIMIT', 0, 1)[1]
  local rank = redis.call('ZRANK', scheduled, head) + math.floor(any * count_parked(number))
  local three = {
    head, newest or redis.call('ZRANGE', scheduled, last, last, 'BYSCORE', 'REV', 'LIMIT', 0, 1)[1],
    redis.call('ZRANGE', scheduled, rank, rank)[1],
  }
  local turn = (lane.probes or 0) % 3
  local rows = { three[turn + 1], three[(turn + 1) % 3 + 1], three[(turn + 2) % 3 + 1] }
  lane.probes = (lane.probes or 0) + 1
  write_lane(number, lane)
  local through = let_through(number, rows, count)
  return through > 0 and through or let_through(number, parked_rows(number, 1), 1) -- those were not there any more
end
-- Records that the call is done (lib/noted), and how many messages it changed. Returns that count. `more`: the rest of the
-- call's reply.
local function note_done(count, more)
  local note = (more or '') .. count
  -- Records in the register of its sender (lib/done) that the call is done: `note` is the count, after the rest of the call's
  -- reply. The last write of a script: if it is cut off before, a repetition does the rest. The note stays for an hour, far
  -- longer than any call is repeated. Statements, as in lib/chosen.
  local noted = number .. ' ' .. note
  redis.call('PSETEX', sender, '3600000', noted)
  return noted and count
end
-- Records an act of an operator, or one that an operator had ordered; a queue keeps the newest thousand notes.
--   did: the act, in a word; by: the operator, as JSON; user: the Redis user; then more names and values
local MOST_NOTES = '1000'

local function note_audit(did, by, user, ...)
  redis.call('XADD', audit, 'MAXLEN', '~', MOST_NOTES, '*', 'did', did, 'by', by, 'user', user, ...)
  redis.call('PERSIST', audit) -- the queue may have been deleted (delete), and created again
end
-- Records an act of an operator on messages of the queue. It may take many calls, which leave one note: the note of the
-- last call, with how many messages the act has changed so far.
--   act: its id, its name, the operator (as JSON), the Redis user, which messages, how; a JSON list. Empty: no note
--   number: how many messages this call changed; 0: no note
local NEAR = 10 -- newest notes among which the note of the call before is, even if several operators act concurrently

local function note_act(act, number)
  local told = read_json(act)
  if not told[1] or number == 0 then
    return
  end
  local before
  for _, note in ipairs(redis.call('XREVRANGE', audit, '+', '-', 'COUNT', NEAR)) do
    local cells = note[2]
    if not before and cells[7] == 'act' and cells[8] == told[1] and cells[9] == 'number' then
      before, number = note[1], number + tonumber(cells[10])
    end
  end
  note_audit(told[2], told[3], told[4], 'act', told[1], 'number', number, 'chosen', told[5], 'how', told[6])
  if before then
    redis.call('XDEL', audit, before)
  end
end
local state = read_lane(lane)
local through = state and let_probe(lane, state, 1, seed) or 0
note_act(act, through)
return note_done(through)
