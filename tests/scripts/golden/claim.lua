-- Hands out up to `count` messages under one lease, whose id is the token: the same token again gives the same deliveries
-- and claims nothing new (I12). First it does the steps of maintenance that are due (I15), so a claiming client is enough.
-- The delivery count is written here, before a consumer sees the message (I3). Returns now, wait, then id, record, state
-- and history of each message, or only their number and their bytes. wait: 0 to claim again immediately; -1 if no event is
-- expected; -2 if only suspects are ready and it must not take them; -3 if the queue was deleted since the client opened
-- it; otherwise the milliseconds until the next event. A claim that takes nothing replies 0 unless nothing was ready.
-- drains
local token, count, lease, part, consumer = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local patience, alarmed = tonumber(ARGV[6]), ARGV[7] -- alarmed: 1 if the client holds the alarm
local suspects, answer = ARGV[8], ARGV[9] -- suspects: all; of a worker: alone or none (lib/rows); answer: rows or count
local thorough = ARGV[10] -- 1: until all lapsed leases are swept, it hands out nothing and replies 0
local opening = ARGV[11] -- see lib/is_open
local seed, default_policy, lapse_error = ARGV[12], ARGV[13], ARGV[14]
local messages, states, history, ready, scheduled = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local dead, expired, expiring, leases, claims = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local counters, settings, wake, alarm, outcomes = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local groups, redrives, audit, seats, tended = KEYS[16], KEYS[17], KEYS[18], KEYS[19], KEYS[20]
local gates, lanes, results, result_times, slots = KEYS[21], KEYS[22], KEYS[23], KEYS[24], KEYS[25]
-- The server's clock in whole milliseconds, read once per script (I11).
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
-- The reply of a claim: now, wait, then the messages that it hands out.
local reply = { now, -1 }
local given = redis.call('HGET', claims, token)
if given then
  -- The fence (I2): only the token that holds a message may settle it.
  local needle_of, needle
  local function holds(token, text)
    if token ~= needle_of then
      needle_of, needle = token, ' +' .. token .. ' '
    end
    return text and text:find(needle, 1, true) ~= nil
  end
  -- Writes to `reply` the messages that this token was given before and still holds: the reply of a claim that is repeated
  -- (I12). given: the token's text in `claims`. Returns whether it holds any.
  local function given_before(given, reply)
    local holding, bytes = false, 0
    for id in given:match('\n.*'):gmatch('[^\n]+') do
      local text, record = redis.call('HGET', states, id), redis.call('HGET', messages, id)
      if record and holds(token, text) then
        holding, bytes = true, bytes + #record
        if answer == 'rows' then
          reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = id, record, text
          reply[#reply + 1] = redis.call('HGET', history, id) or ''
        end
      end
    end
    if not holding then
      return false
    end
    if answer == 'count' then
      reply[3] = select(2, given:gsub('\n', '\n')) -- all that it was given: the number of lines of its list
      reply[4] = bytes -- of the messages that it still holds
    end
    redis.call('ZADD', leases, now + lease, token) -- the client counts its lease from this reply
    return true
  end
  if given_before(given, reply) then
    return reply
  end
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
-- Lets in the heads of lanes, once the messages that are due by now are at their places (`due_first`): one that was delayed
-- may be the head. Defines the large fragments when they are needed: most scripts let no message in.
--   leaving: as in lib/promote
local are_moved, made
local function due_first(leaving)
  if not are_moved then
    are_moved = true
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
    -- Moves due messages from `scheduled` to `ready`. Only the index changes; the state stays the same. With a rule for keys, a
    -- message with a key needs a seat of its lane; otherwise it is blocked there.
    --   limit: of rows; nil: as many as a script moves before it gives a seat; more are due only if nothing claims (lib/behind)
    --   leaving: ids whose seats the script gives back, and whose rows it is about to remove: they stay; nil: none
    local MOVED = 200

    local function promote(limit, leaving)
      local rows = redis.call('ZRANGEBYSCORE', scheduled, '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit or MOVED)
      local moved, members, blocked = {}, {}, {}
      local blocks = #rows > 0 and setting('per_key') and (function()
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
        -- A whole number as text, for an argument of a command: Redis would print a number with up to 17 digits, which takes longer
        -- than most commands.
        local WHOLE = string.format('%d', 2 ^ 43) == '8796093022208' and '%d' or '%.0f' -- %d is faster, and has 32 bits on some servers

        local function digits(number)
          return string.format(WHOLE, number)
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
        -- The lane of a message with this state that is not leased, and whether the row is its own; otherwise a script that was cut
        -- off left it behind. nil: it has no key, or is leased. A state that says dead may be left by a purge that was cut off.
        local function waiting_lane(id, row, text)
          if text and not text:find('^%a+/?%a* %-') then
            return nil
          end
          local head = head_of(id, text)
          if not (head and head.lane) then
            return nil
          end
          return head.lane, member_of(id, head, parse_state(text, head.birth).due) == row
        end
        -- The id in a member of an index (lib/order describes the bytes before it).
        local function id_of(member)
          return member:sub(member:byte(1) < 16 and 9 or 3)
        end
        local full, leaves = {}, {}
        for _, id in ipairs(leaving or {}) do
          leaves[id] = true
        end
        return function(row)
          local id = id_of(row)
          if leaves[id] then
            return math.huge
          end
          local lane, is_own = waiting_lane(id, row, redis.call('HGET', states, id))
          if not is_own then
            return false
          end
          local may, slot = enter(id, row, lane, full)
          return not may and (slot or BLOCKED + lane)
        end
      end)()
      for i = 1, #rows, 2 do
        local first, lane = rows[i]:byte(1), blocks and blocks(rows[i])
        if lane and lane < math.huge then
          blocked[#blocked + 1], blocked[#blocked + 2] = lane, rows[i]
        elseif not lane then
          members[#members + 1] = rows[i]
          local priority = first < 10 and 9 - first or 4 -- or it was put off (lib/put_off)
          moved[#moved + 1], moved[#moved + 2] = score_of(priority, tonumber(rows[i + 1])), rows[i]
        end
      end
      if #blocked > 0 then
        redis.call('ZADD', scheduled, unpack(blocked))
      end
      if #members > 0 then
        redis.call('ZADD', ready, unpack(moved))
        redis.call('ZREM', scheduled, unpack(members))
      end
      return #rows / 2
    end
    -- Puts one token on the list, never more. It wakes one waiting client, whose claim passes it on if messages are left. So no
    -- client polls, and a message wakes one of a thousand.
    local function wake_one()
      if redis.call('LLEN', wake) == 0 then
        redis.call('LPUSH', wake, 1)
        redis.call('PEXPIRE', wake, 5000) -- a client claims before it waits, so the token may expire; none is left behind (I13)
      end
    end
    if promote(nil, leaving) > 0 then
      wake_one()
    end
  end
end

local function let_in(...)
  due_first()
  if not made then
    -- A parked message that failed as a probe is behind the others of its lane: this follows the lane in its score in
    -- `scheduled`. So the lane of a dependency is a range of two scores, wherever its messages are read or counted. In `seats`
    -- it follows the lane in the score of a pass whose call did not end in time (lib/end_pass).
    local TRIED = '.5'
    local function id_of(member)
      return member:sub(member:byte(1) < 16 and 9 or 3)
    end
    local MARK, FLAGS, AGAIN = '^>=%d[%d.]* ', 0x0F, 60000 -- milliseconds until it is checked again

    local function is_later(record, text)
      return text and text:find(MARK) ~= nil or record:byte(8) == FLAGS and record:find(MARK, 9) ~= nil
    end
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
    local EXPIRES = 0x10
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
    local HEADERS = 0x20

    local function lanes_of(record)
      local flags = record:byte(8)
      if flags and math.floor(flags / HEADERS) % 2 == 1 then
        return lanes_in(record, math.floor(flags / EXPIRES) % 2 == 1 and 15 or 9)
      end
    end
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

    local function as_head(birth, flags, expires, lane, needs)
      return {
        birth = birth, priority = math.min(flags % EXPIRES, 9), expires = expires, transient = flags >= TRANSIENT,
        lane = lane, needs = needs,
      }
    end

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
    local BAND = 2 ^ 42

    local function score_of(priority, due)
      return (9 - priority) * BAND + due
    end

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
    local WHOLE = string.format('%d', 2 ^ 43) == '8796093022208' and '%d' or '%.0f' -- %d is faster, and has 32 bits on some servers

    local function digits(number)
      return string.format(WHOLE, number)
    end
    -- The score in `ready` of the next message that is let in: behind all messages that are due by now. If lanes take turns, it is
    -- behind all that are there: many are let in within one millisecond, and among equal scores the lane with the oldest messages
    -- would have more than its share.
    --   first: the first byte of its row, which encodes its priority
    local STEP = 2 ^ -7 -- milliseconds; a score has room for it (lib/order)
    local score_by_first, place_by_first = {}, {}

    local function next_score(first)
      if not rule.in_turn then
        local score = score_by_first[first] or digits(score_of(9 - first, now + 1))
        score_by_first[first] = score
        return score
      end
      local band, place = score_of(9 - first, 0), place_by_first[first]
      if not place then
        local last = tonumber(redis.call('ZRANGE', ready, -1, -1, 'WITHSCORES')[2] or 0) - band
        place = last > now and last < now + 60000 and last or now + 1
      end
      place_by_first[first] = place + STEP
      return string.format('%.17g', band + place + STEP)
    end
    local function wake_one()
      if redis.call('LLEN', wake) == 0 then
        redis.call('LPUSH', wake, 1)
        redis.call('PEXPIRE', wake, 5000) -- a client claims before it waits, so the token may expire; none is left behind (I13)
      end
    end
    local function is_closed(number)
      local lane = (lanes_read[number] or setting('gated')) and read_lane(number)
      return lane and (lane.open or lane.paused and (not lane.ends or lane.ends > now)) and true or false
    end
    -- Whether a free seat does not let the messages of a lane in: it is closed, or the lane of a dependency (lib/read_lane).
    local function is_gated(number)
      local lane = (lanes_read[number] or setting('gated')) and read_lane(number)
      return lane and (lane.of == 'dependency' or is_closed(number)) or false
    end
    local function limit_of(number)
      local lane = rule.of_each and (lanes_read[number] or setting('limited')) and read_lane(number)
      return lane and tonumber(lane.limit) or rule.limit
    end
    local BY_RATE = '.5'
    local function free_seats(lane)
      local score = digits(lane)
      local free = limit_of(lane) - redis.call('ZCOUNT', seats, score, score .. BY_RATE)
      if rule.interval and free > 0 then
        local function slot_of(lane)
          local at = tonumber(redis.call('ZSCORE', slots, string.format('%.0f', lane)) or nil)
          return at and at > now and at <= now + rule.interval and at or nil
        end
        free = not slot_of(lane) and redis.call('ZCOUNT', seats, score .. BY_RATE, score .. BY_RATE) == 0 and 1 or 0
      end
      return free, rule.interval and score .. BY_RATE or score
    end
    local function seat_in(lane)
      return rule.interval and digits(lane) .. BY_RATE or digits(lane)
    end
    -- Lets in the heads of these lanes, as many as seats are free: they become ready, behind all messages that are due by now.
    -- Record and state are checked: a row whose message is gone, leased or elsewhere is dropped, and the next is taken.
    --   room: lane → how many of it, even without free seats; nil: as many as seats are free
    local MOST = 1000 -- rows that one call reads (I9)

    -- The first rows of these lanes, their ids, their lanes, and the scores of the seats that they get.
    local function heads_of(lanes, room)
      local rows, ids, lane_of, seat_of, count = {}, {}, {}, {}, 0
      local gates = setting('gated') or next(lanes_read)
      for n = 1, #lanes do
        local lane = lanes[n]
        local free, seat
        if gates and is_gated(lane) then
          free = 0
        elseif room then
          free, seat = room[lane], seat_in(lane)
        else
          free, seat = free_seats(lane)
        end
        free = math.min(free, MOST - count)
        if free > 0 then
          local score = digits(BLOCKED + lane)
          local found = redis.call(
            'ZRANGEBYSCORE', scheduled, score, score .. TRIED, 'LIMIT', '0', free == 1 and '1' or digits(free)
          )
          for at = 1, #found do
            count = count + 1
            rows[count], ids[count], lane_of[count], seat_of[count] = found[at], id_of(found[at]), lane, seat
          end
        end
      end
      return rows, ids, lane_of, seat_of
    end

    local heads_in
    function heads_in(lanes, room)
      local rows, ids, lane_of, seat_of = heads_of(lanes, room)
      if #rows == 0 then
        return
      end
      local texts, records = redis.call('HMGET', states, unpack(ids)), redis.call('HMGET', messages, unpack(ids))
      local taken, came, again, dropped, last = {}, {}, {}, {}, 0
      for n = 1, #rows do
        local row, id = rows[n], ids[n]
        if is_blocked_row(row, id, texts[n], records[n]) then
          taken[last + 1], taken[last + 2] = seat_of[n], id
          came[last + 1], came[last + 2] = next_score(row:byte(1)), row
          last = last + 2
        else
          local lane = lane_of[n]
          if not dropped[lane] then
            again[#again + 1] = lane
          end
          dropped[lane] = (dropped[lane] or 0) + 1
        end
      end
      if last > 0 then
        redis.call('ZADD', seats, unpack(taken))
        redis.call('ZADD', ready, unpack(came))
        wake_one()
      end
      redis.call('ZREM', scheduled, unpack(rows)) -- the last: by such a row the next sees what was cut off
      if #again > 0 then
        heads_in(again, room and dropped)
      end
    end
    made = heads_in
  end
  made(...)
end
-- Gives back the seats that these messages hold, and lets in the next messages of their lanes: as many as gave theirs back.
-- No lane has too many seats, so those that are left are not counted; but if lanes take turns, a claim may have been filled
-- (lib/fill), and if keys have a rate, a free seat is not enough. What a claim finds too many, it takes away (lib/narrow).
local function vacate(ids)
  if redis.call('ZCOUNT', scheduled, BLOCKED, '+inf') == 0 then -- no message is blocked
    redis.call('ZREM', seats, unpack(ids))
    return
  end
  local given, size, lanes, room = {}, 0, {}, {}
  for n, lane in ipairs(redis.call('ZMSCORE', seats, unpack(ids))) do
    if lane then
      lane = tonumber(lane)
      lane = lane - lane % 1 -- lib/BY_RATE
      size = size + 1
      given[size] = ids[n]
      if not room[lane] then
        lanes[#lanes + 1] = lane
      end
      room[lane] = (room[lane] or 0) + 1
    end
  end
  if size > 0 then
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
    due_first(given)
    redis.call('ZREM', seats, unpack(given))
    let_in(lanes, not rule.in_turn and not rule.interval and room or nil)
  end
end
-- Does the steps of maintenance that are due in a claim (I15). `behind`: whether more leases have lapsed than it swept. A
-- thorough claim then ends, and must be repeated. A value, not a function, since to define one costs Redis as much as a
-- command.
local STEPS = 10 -- messages that a claim moves at most in each step of maintenance (I9)
local DUE = 128 -- due messages that it also makes ready, to take them: no more fit that are not fresh (lib/chosen)
local BEHIND = 15 -- messages that it also sweeps if it does nothing else
local there = redis.call('EXISTS', leases, scheduled, scheduled, expiring, expiring) -- a key counts each time it is named
local lapsed = there % 2 > 0 and redis.call('ZCOUNT', leases, '-inf', now) or 0
local fallen_due, outlived = 0, 0
if there > 1 then -- many queues have neither
  fallen_due = redis.call('ZCOUNT', scheduled, '-inf', now)
  outlived = redis.call('ZCOUNT', expiring, '-inf', now)
end
local behind = false -- with the sweep
if lapsed + fallen_due + outlived > 0 then
  local MARK, FLAGS, AGAIN = '^>=%d[%d.]* ', 0x0F, 60000 -- milliseconds until it is checked again

  local function is_later(record, text)
    return text and text:find(MARK) ~= nil or record:byte(8) == FLAGS and record:find(MARK, 9) ~= nil
  end
  -- The redelivery policy in a text. nil if it is damaged, which must not stop the queue; nil and true if it names an unknown
  -- arithmetic, so a later version wrote it.
  local NEEDED = { rq = 'multiplier', artemis = 'max_delay', activemq = 'redelivery_delay' } -- in addition to those that all need

  local function is_number(value)
    return type(value) == 'number' and value == value -- NaN is not itself
  end

  local function read_policy(text)
    local found = read_json(text).redelivery
    if type(found) ~= 'table' or not NEEDED[found.arithmetic] then
      return nil, type(found) == 'table' and type(found.arithmetic) == 'string'
    end
    local sound = is_number(found.initial_delay) and is_number(found.multiplier)
    sound = sound and is_number(found.collision_avoidance) and is_number(found[NEEDED[found.arithmetic]])
    for _, wait in ipairs(type(found.delays) == 'table' and found.delays or {}) do
      sound = sound and is_number(wait)
    end
    return sound and found or nil
  end
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
  local BAND = 2 ^ 42

  local function score_of(priority, due)
    return (9 - priority) * BAND + due
  end

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

  local function expiry_of(head, state)
    if state.redriven == 0 then
      return head.expires
    end
    return tonumber(state.more:match(' expires=(%d+)') or nil)
  end
  -- The only way a message gets a row in an index, except where many move together, as in lib/sent and lib/promote. The new
  -- row is written first, then the state, which takes effect; the caller removes the old row last (lib/leave). A script that
  -- is cut off leaves at worst a row that the state contradicts, and the next script that reads the row removes it (I9).
  -- Returns the new row: its index and its member.
  --   waits: until state.due, which alone cannot tell, since the clock may step back; a score: in the lane where it is blocked
  --   rest: when the rest of a dead or expired message ends (lib/past_resting); nil: it does not rest
  --   arrive: writes a record, and a history, that the queue does not have yet; nil: it has them
  -- With a rule for keys, a message with a key is ready only with a seat, otherwise blocked (lib/seated_or_blocked).
  local in_group, seat_or_block, give_back

  local function put(id, state, head, waits, rest, arrive)
    local member, score = member_of(id, head, state.due), type(waits) == 'number' and waits or state.due
    local index = state.part == 'dead' and dead or state.part == 'expired' and expired or scheduled
    if state.part == 'live' and not waits then
      index, score = ready, score_of(head.priority, state.due)
    end
    local in_lane = head.lane and setting('per_key')
    if in_lane then
      if not give_back then
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
        -- Whether a message that is not leased keeps the seat that it has. waits: for its redelivery.
        local function keeps_seat(state, waits)
          if state.part ~= 'live' then
            return rule.holds and state.part == 'dead' and state.reason ~= 'expired'
          end
          return not waits or rule.in_order
        end
        local function is_closed(number)
          local lane = (lanes_read[number] or setting('gated')) and read_lane(number)
          return lane and (lane.open or lane.paused and (not lane.ends or lane.ends > now)) and true or false
        end
        local WHOLE = string.format('%d', 2 ^ 43) == '8796093022208' and '%d' or '%.0f' -- %d is faster, and has 32 bits on some servers

        local function digits(number)
          return string.format(WHOLE, number)
        end
        local function limit_of(number)
          local lane = rule.of_each and (lanes_read[number] or setting('limited')) and read_lane(number)
          return lane and tonumber(lane.limit) or rule.limit
        end
        local BY_RATE = '.5'
        local function free_seats(lane)
          local score = digits(lane)
          local free = limit_of(lane) - redis.call('ZCOUNT', seats, score, score .. BY_RATE)
          if rule.interval and free > 0 then
            local function slot_of(lane)
              local at = tonumber(redis.call('ZSCORE', slots, string.format('%.0f', lane)) or nil)
              return at and at > now and at <= now + rule.interval and at or nil
            end
            free = not slot_of(lane) and redis.call('ZCOUNT', seats, score .. BY_RATE, score .. BY_RATE) == 0 and 1 or 0
          end
          return free, rule.interval and score .. BY_RATE or score
        end
        local function seat_in(lane)
          return rule.interval and digits(lane) .. BY_RATE or digits(lane)
        end
        local function enter(id, row, lane, full)
          if rule.limit == math.huge then
            return true
          end
          local has_room = not (full and full[lane] or is_closed(lane))
          if has_room then
            local score = digits(BLOCKED + lane)
            local head = redis.call('ZRANGEBYSCORE', scheduled, score, score, 'LIMIT', 0, 1)[1]
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
        -- The part of lib/put for messages with a key, if the queue has a rule for keys.

        -- The index and the score of a message that is due: `ready` and its score there, if it has a seat of its lane.
        local function seated_or_blocked(id, row, lane, score)
          due_first({ id })
          local may, slot = enter(id, row, lane)
          if may then
            return ready, score
          end
          return scheduled, slot or BLOCKED + lane
        end

        -- Called after its row and its state are written: if cut off before this, only the next message is not let in yet.
        --   waits: for its redelivery, or, by the rate of keys, for its slot
        local function given_back(id, state, waits)
          if not keeps_seat(state, waits) then
            vacate({ id })
          end
        end
        seat_or_block, give_back = seated_or_blocked, given_back
      end
      if index == ready then
        index, score = seat_or_block(id, member, head.lane, score)
      end
    end
    redis.call('ZADD', index, score, member)
    local expires = state.part == 'live' and expiry_of(head, state)
    if expires then
      redis.call('ZADD', expiring, expires, id)
    end
    state.mark = '-'
    local died_again = state.part ~= 'live' and state.more:match(' redrive=([^/ ]+)/') -- see lib/bring_back
    if died_again then
      state.more = state.more:gsub(' redrive=%S*', '')
    end
    if rest or state.more:find(' rest=') then
      state.more = state.more:gsub(' rest=%d+', '') .. (rest and ' rest=' .. rest or '')
    end
    if state.part == 'dead' and not state.more:find(' group=', 1, true) then
      -- The line of the newest failure in a history (lib/remember); empty: no failure.
      local FAILURES = { nacked = true, lapsed = true, passed_on = true, poisoned = true, dead_lettered = true }

      local function last_failure(story)
        local first, from, to = 1, 1, 0
        while first <= #story do
          local last = (story:find('\n', first, true) or #story + 1) - 1
          if FAILURES[story:match('^[%a_]*', first)] then
            from, to = first, last
          end
          first = last + 2
        end
        return story:sub(from, to)
      end
      -- The group of a dead letter: the fingerprint of the failure that it died of, the newest one in its history.
      local function group_of(id, state)
        local expired = state.reason == 'expired'
        local failure = last_failure(redis.call('HGET', history, id) or '')
        if expired and tonumber(failure:match('^%S*\t(%d+)') or nil) ~= state.due then
          failure = '' -- it expired without a failure
        end
        local group = failure:match('"fingerprint":"(%w*)"') or '' -- in a text the quotes would be escaped
        return group == '' and expired and 'expired' or group:sub(1, 12)
      end
      state.more = state.more .. ' group=' .. group_of(id, state)
    end
    redis.call('HSET', states, id, format_state(state))
    if arrive then
      arrive()
    end
    if state.part == 'dead' then -- last, so that each row of `groups` belongs to a dead letter
      in_group = in_group or (function()
        -- The row of a dead letter in `groups`: its group, its time of death, and its row in `dead`. All scores are 0, so Redis
        -- sorts by bytes: a group is a range that begins with its oldest dead letter, and so are groups with the same first six
        -- digits.
        --   group: twelve digits, lapsed, expired, or empty: the failure has no fingerprint
        local function group_row(group, died, member)
          return string.format('%-12s', group) .. pack_number(died, 6) .. member
        end
        -- The row in `groups` of a dead letter with this state, whose row in `dead` is `member`.
        local function row_in_groups(state, member)
          return group_row(state.more:match(' group=(%S*)') or '', state.due, member)
        end
        return row_in_groups
      end)()
      redis.call('ZADD', groups, 0, in_group(state, member))
    end
    if died_again then
      -- Counts, for a redrive, the outcome of a message that it moved back: acked or died. Not counted if the redrive has been
      -- forgotten.
      local function count_redriven(job, what)
        if redis.call('HEXISTS', redrives, job .. ' ' .. what) == 1 then
          redis.call('HINCRBY', redrives, job .. ' ' .. what, 1)
        end
      end
      count_redriven(died_again, 'died')
    end
    if head.needs and setting('gated') then
      -- Precedes, in `seats`, the id of a message that was let through the gate of its dependency; no id has this byte.
      local PASS = '\1'
      -- Ends the passes of messages that were let through the gate of their dependency.
      local function end_passes(ids)
        local passes = {}
        for n, id in ipairs(ids) do
          passes[n] = PASS .. id
        end
        redis.call('ZREM', seats, unpack(passes))
        redis.call('ZREM', gates, unpack(passes))
      end
      end_passes({ id })
    end
    if in_lane then
      give_back(id, state, waits or index == scheduled)
    end
    return index, member
  end
  -- The wait before the n-th redelivery in whole milliseconds: RedeliveryPolicy.delay_ms, bit for bit, since both do
  -- the same operations on doubles in the same order. Change both or neither.
  --   redelivery: RedeliveryPolicy.as_wire(); r: -1 to 1; previous: the previous wait (nil: computed)
  -- cjson.null is true in Lua, so the type of a field that can be null is checked.
  local CEILING, JAVA_LONG = 315360000000, 2 ^ 63 -- ten years; the largest long, as near as a double comes

  local function grown(p, n) -- bounded, since 0 * inf is not a number
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
      wait, n = previous, 2 -- one step: the state has the previous wait, so the work is bounded (I9)
    end
    for _ = 2, n do
      if wait > 0 and p.multiplier > 1 then
        wait = math.min(math.floor(math.min(wait * p.multiplier, JAVA_LONG)), limit)
      else
        wait = math.max(p.redelivery_delay, 0) -- Python refuses a wait below 0; a script must continue
      end
      wait = java_spread(p, wait, r)
    end
    return wait
  end

  local arithmetics = { rq = rq_delay, artemis = artemis_delay, activemq = activemq_delay }

  local function policy_delay(redelivery, n, r, previous)
    return arithmetics[redelivery.arithmetic](redelivery, n, r, previous)
  end
  -- Adds a line to the history of a message: one per event, tab-separated. A cell is a number, a word or JSON, so it holds no
  -- raw tab or newline. The first 15 lines and the last 15 stay; only the newest keeps its traceback (I6, I13). The failures
  -- of a dead letter, `kept`, are one line, the newest, so that they do not displace the failures that it died of; so are
  -- repeated `passed_on` events.
  --   event  at  delivery  delay  consumer  error  traceback
  -- at: now, unless the caller gives another time.
  local KEEP = 15

  local function remember(id, event, delivery, delay, consumer, failure, at)
    local line = table.concat({ event, at or now, delivery, delay, consumer, failure }, '\t')
    local text = redis.call('HGET', history, id)
    if text and text ~= '' then
      -- A full history is some 20 kB: patterns would read each byte, finds of plain text do not.
      local ends, tab = { 0 }, nil -- the ends of its lines but the last; the last tab of that
      local found = text:find('\n')
      while found do
        ends[#ends + 1], found = found, text:find('\n', found + 1)
      end
      local start = line:match('^expired\t%d+\t')
      for n = 1, start and #ends or 0 do
        if text:sub(ends[n] + 1, ends[n] + #start) == start then
          return -- already written, when it failed as an expired one
        end
      end
      found = text:find('\t', ends[#ends] + 1)
      while found do
        tab, found = found, text:find('\t', found + 1)
      end
      local kept, from, last = '', 1, ends[#ends] + 1
      if #ends >= 2 * KEEP then
        kept, from = text:sub(1, ends[KEEP + 1]), ends[KEEP + 2] + 1
      end
      local before = text:sub(from, tab) .. '\n'
      if (event == 'kept' or event == 'passed_on') and text:sub(last, last + #event) == event .. '\t' then
        kept, before = '', text:sub(1, last - 1)
      end
      line = kept .. before .. line
    end
    redis.call('HSET', history, id, line)
  end
  -- The queue's settings for messages that die or expire; an empty table if there are none.
  --   dead_letter: {"dead": keep|discard, "expired": expired|dead|discard, "transient": keep|discard, ...}
  local function read_strategy()
    return read_json(setting('dead_letter'))
  end
  -- How often a message was attempted: its deliveries, except those that were given back before the holder began. The state
  -- counts these in its field untried=N (lib/count_untried).
  local function untried(state)
    return tonumber(state.more:match(' untried=(%d+)') or 0)
  end

  local function attempts(state)
    return math.max(state.deliveries - untried(state), 0)
  end
  -- Writes an event to the outcome history, a record of the outcomes of deliveries and messages. It is a stream of about as
  -- many entries as the queue's settings allow; without that setting nothing is written. An event is written after it has
  -- happened, and a failed write stops nothing. The fields are the same in every entry, so that Redis stores their names
  -- once.
  --   attempt: how many so far (lib/attempts); age, delay: milliseconds since the send and until the redelivery
  --   detail: { cause, consumer, error }, those that are known; the last two as in lib/remember
  -- An event that ends a message whose result was asked for is also kept as its outcome (lib/kept).
  local ENDS = {
    dead = true, expired = true, discarded = true, purged = true, cancelled = true, moved = true, undone = true, redriven = true,
  }
  local names = {} -- of consumers, by their JSON
  local function outcome(event, id, head, state, delay, detail)
    local birth = string.format('%.0f', head.birth)
    if ENDS[event] and state.more:find(' result=', 1, true) then
      -- Keeps the outcomes of messages (lib/kept), for scripts that rarely do so: each outcome, or false to forget it.
      local function keep_results(ended, ends, births)
        local values = redis.call('HMGET', settings, 'results', 'results_bytes')
        local kept_for, most_bytes = values[1], values[2]
        -- A duration in the queue's settings, in milliseconds; nil if the text is not one, which counts as unset.
        local function span(text)
          local value = tonumber(text and text:match('^%d+$') or nil)
          return value and value > 0 and value <= 315360000000 and value or nil -- ten years
        end
        -- Milliseconds for which results are kept if the settings do not set it.
        local RESULTS_KEPT = 3600000
        -- Bytes of a result in Redis, in addition to its text and twice its id.
        local RESULT_EXTRA = 200
        -- Follows an id in `results` and `result_times`: the birth of the send whose outcome is kept under the id (lib/kept). No id has
        -- this byte, and the row of a birth comes right after that of its outcome.
        local BORN = '\1'
        -- Keeps the outcomes of messages whose results were asked for (result.lua), and notifies callers that wait now. The newest
        -- outcome counts. They are kept for the queue's `results`, within its `results_bytes`: the oldest go first, and are
        -- counted. A write that fails stops nothing, since the queue keeps running when memory is full: a waiting caller is told
        -- that there is no result. Statements, as in lib/chosen, since every ack with a result runs them; old results are read only
        -- if some must go.
        -- The birth of its send has a row after that of each outcome: "word time birth" (lib/kept_birth). Version 0.1.0, which knows
        -- no births, drops such a row as it drops an outcome, so none stays.
        --   ended, ends: ids, and for each "word time rest"; acked: the rest is its result (rq_dlq/core/results/results.py), empty:
        --   none was given; otherwise the reason and, after a tab, the cause. false: forget the outcome of the message
        --   births: of their sends, as text; '0': unknown
        --   kept_for, most_bytes: the settings
        local BYTES = 67108864 -- of all results
        local lasts, limit = span(kept_for) or RESULTS_KEPT, tonumber((most_bytes or ''):match('^%d+$') or nil) or BYTES
        local names, starts, born, sizes, wanted = { '' }, {}, {}, {}, 0 -- under the empty id: the bytes of all
        for n, id in ipairs(ended) do
          names[2 * n], names[2 * n + 1] = id, id .. BORN
          starts[n] = ends[n] and ends[n]:match('^%a+ %d+ ')
          born[n] = ends[n] and starts[n] .. births[n]
          sizes[n] = ends[n] and 4 * #id + 2 * #BORN + #ends[n] + #born[n] + 2 * RESULT_EXTRA or 0
          wanted = wanted + (sizes[n] <= limit and sizes[n] or 0)
        end
        local before = redis.call('HMGET', results, unpack(names))
        local over = redis.call('ZRANGEBYSCORE', result_times, '-inf', now - lasts, 'LIMIT', 0, 4 * #ended)
        for at = 2, #names do
          over[#over + 1] = before[at] and names[at] or nil
        end
        local total, dropped = tonumber(before[1] or nil) or 0, 0
        if over[1] or total + wanted > limit then
          -- Forgets the first of these rows of results (lib/kept), each with its birth, until `enough` bytes are free. Returns how many
          -- bytes that freed, and how many outcomes went. The rows of `result_times` go last: by them a later call finds what a cut-off
          -- script left.
          local TOGETHER = 1000 -- rows in one command
          local function forget_results(rows, enough)
            local freed, gone, outcomes = 0, {}, 0
            for _, row in ipairs(rows) do
              if freed >= enough then
                break
              end
              local is_birth = row:sub(-1) == BORN
              outcomes = outcomes + (is_birth and 0 or 1)
              for _, name in ipairs({ row, not is_birth and row .. BORN or nil }) do
                local length = gone[name] and 0 or redis.call('HSTRLEN', results, name)
                freed = freed + (length > 0 and 2 * #name + length + RESULT_EXTRA or 0)
                gone[#gone + 1], gone[name] = name, true
              end
            end
            for at = 1, #gone, TOGETHER do
              local stop = math.min(at + TOGETHER - 1, #gone)
              redis.call('HDEL', results, unpack(gone, at, stop))
              redis.call('ZREM', result_times, unpack(gone, at, stop))
            end
            return freed, outcomes
          end
          -- Makes room for new results (lib/kept): forgets the rows `over`, and the oldest, until there is room for `wanted` bytes.
          -- Returns how many bytes the others take, and how many outcomes went before their time.
          --   total: the bytes of all before that; limit: the most
          local MOST, MOST_BYTES = 4400, 33554432 -- rows that one script drops (I9): as many as half a megabyte may need
          local AT_ONCE = 100 -- rows that one command reads
          local function make_room(over, total, wanted, limit)
            total = total - forget_results(over, math.huge)
            local room, dropped, seen = math.min(total + wanted - limit, MOST_BYTES), 0, 0
            while room > 0 and seen < MOST do
              local oldest = redis.call('ZRANGE', result_times, 0, AT_ONCE - 1)
              if not oldest[1] then
                return 0, dropped -- nothing is left, whatever was counted
              end
              local freed, gone = forget_results(oldest, room)
              total, room, dropped, seen = total - freed, room - freed, dropped + gone, seen + #oldest
            end
            return total, dropped
          end
          total, dropped = make_room(over, total, wanted, limit)
        end
        local rows, cells, last, kept, kept_at = {}, { '', 0 }, 0, {}, string.format('%.0f', now)
        for n, id in ipairs(ended) do
          if ends[n] and total + sizes[n] <= limit then
            total, kept[n], last = total + sizes[n], true, last + 4
            rows[last - 3], rows[last - 2], rows[last - 1], rows[last] = kept_at, id, kept_at, id .. BORN
            cells[last - 1], cells[last], cells[last + 1], cells[last + 2] = id, ends[n], id .. BORN, born[n]
          elseif ends[n] then
            dropped = dropped + 1
          end
        end
        cells[2] = string.format('%.0f', math.max(0, total))
        local written = last == 0 or type(redis.pcall('ZADD', result_times, unpack(rows))) == 'number'
        if written and (last > 0 or before[1]) then
          written = type(redis.pcall('HSET', results, unpack(cells))) == 'number'
        end
        redis.call('PEXPIRE', results, lasts)
        redis.call('PEXPIRE', result_times, lasts)
        if dropped > 0 then
          redis.pcall('HINCRBY', counters, 'results_dropped', dropped)
        end
        for n, id in ipairs(ended) do
          if ends[n] then -- if the user must not publish, a waiting caller finds it within a second
            local is_kept = written and kept[n] -- in the place of the time the birth: version 0.1.0 does not read the time here
            local word, rest = is_kept and starts[n]:match('^%a+') or 'unkept', is_kept and ends[n]:sub(#starts[n] + 1) or ''
            redis.pcall('PUBLISH', results .. ':' .. id, word .. ' ' .. births[n] .. ' ' .. rest)
          end
        end
        return kept
      end
      local word = event == 'undone' and state.part or event
      local cause = detail and detail.error and detail.error:match('^[^\t]*') or ''
      local rest = string.format('%.0f', now) .. ' ' .. state.reason .. '\t' .. cause
      keep_results({ id }, { event ~= 'redriven' and word .. ' ' .. rest }, { birth })
    end
    local kept = setting('outcomes')
    if not kept then
      return
    end
    detail = detail or {}
    local age = math.max(now - math.floor(head.birth / 4096), 0)
    local consumer, failure = detail.consumer or '""', detail.error and read_json(detail.error:match('^[^\t]*')) or {}
    names[consumer] = names[consumer] or read_json('[' .. consumer .. ']')[1] or ''
    redis.pcall(
      'XADD', outcomes, 'MAXLEN', '~', kept, '*', 'id', id, 'event', event, 'attempt', attempts(state),
      'age', string.format('%.0f', age), 'delay', string.format('%.0f', delay), 'consumer', names[consumer],
      'error', failure.type or '', 'fingerprint', failure.fingerprint or '',
      'reason', state.reason, 'cause', detail.cause or '', 'birth', birth
    )
  end
  -- Forgets that a message was passed on (pass_on.lua), and how often in a row it failed uncharged (lib/uncharged): its holder
  -- has begun it, or it is buried or moved.
  local function taken_up(state)
    state.more = state.more:gsub(' passed_on=%S*', ''):gsub(' uncharged=%S*', '')
  end
  -- The only way into the dead-letter queue and the expiry queue. The queue's settings may send expired messages to the dead
  -- letters, or discard messages, which is counted (I14). Returns where the message went: dead, expired or discarded.
  local strategy

  -- detail: for the outcome history (lib/outcome)
  local function bury(id, state, head, part, reason, detail)
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
    taken_up(state)
    if fate == 'discard' then
      -- Removes messages permanently (lib/gone), for scripts that rarely do so. Returns how many.
      -- Read before all changes, so that no read separates them if the script is cut off.
      local rule_of_keys, has_gates = setting('per_key'), setting('gated')

      local function drop(ids)
        local once_gone, per_key, gated = nil, rule_of_keys, has_gates
        -- The only way out of a queue: removes messages permanently, with all that was kept about them (I13). `gone` is how many.
        -- The caller counts them, and removes their rows. Statements, as in lib/chosen, since every ack runs them.
        --   ids: the messages, and those of which a cut-off script left something behind
        --   once_gone: called with the ids as soon as the records are gone; nil: not called
        --   per_key, gated: the settings of keys and closed lanes; if they are set, seats and passes are given back
        local gone = #ids
        redis.call('HDEL', messages, unpack(ids)) -- from here on they are gone
        if once_gone then
          once_gone(ids)
        end
        redis.call('HDEL', history, unpack(ids))
        redis.call('HDEL', states, unpack(ids)) -- last: by the state a sweep sees that a script was cut off
        if gated then
          local PASS = '\1'
          local function end_passes(ids)
            local passes = {}
            for n, id in ipairs(ids) do
              passes[n] = PASS .. id
            end
            redis.call('ZREM', seats, unpack(passes))
            redis.call('ZREM', gates, unpack(passes))
          end
          end_passes(ids)
        end
        if per_key then -- after the states: lib/tend finds the seat of a message that is gone
          vacate(ids)
        end
        return gone
      end
      redis.call('HINCRBY', counters, 'discarded', drop({ id }))
      local job = state.more:match(' redrive=([^/ ]+)/') -- otherwise lib/put counts it
      if job then
        local function count_redriven(job, what)
          if redis.call('HEXISTS', redrives, job .. ' ' .. what) == 1 then
            redis.call('HINCRBY', redrives, job .. ' ' .. what, 1)
          end
        end
        count_redriven(job, 'died')
      end
    else
      state.part, state.due = fate, now
      put(id, state, head)
    end
    outcome(reason == 'expired' and 'expired' or 'dead', id, head, state, 0, detail)
    if fate == 'discard' then
      outcome('discarded', id, head, state, 0, detail)
      return 'discarded'
    end
    return fate
  end
  -- When a message is due after a delay: never in the millisecond of its birth, not even after the clock stepped back (lib/order).
  local function due_in(delay, head)
    local due = now + delay
    return due == math.floor(head.birth / 4096) and due + 1 or due
  end
  -- The delay of a failure that is not charged. No budget ends such failures, so each in a row waits twice as long: 1 s at first,
  -- 10 minutes at most, spread as the policy says, and never less than the policy's delay. A second or more that the caller
  -- asked for stays as it is. The state counts them in its field uncharged=N, until lib/taken_up removes it.
  --   count: of these failures, with this one; asked: by the caller, milliseconds; nil: the policy's; delay: without this rule
  local FIRST, LONGEST = 1000, 600000 -- milliseconds

  local function uncharged(state)
    return tonumber(state.more:match(' uncharged=(%d+)') or 0)
  end

  local function uncharged_delay(count, asked, delay, spread, r)
    if asked and asked >= FIRST then
      return asked
    end
    local growth = { arithmetic = 'rq', initial_delay = FIRST, multiplier = 2, max_delay = LONGEST, collision_avoidance = spread }
    return math.max(policy_delay(growth, count, r), asked and 0 or delay)
  end
  -- Decides the outcome of a message that failed: redelivered by the policy, dead, or expired (I5, I6, I7). The policy is the
  -- one in Redis, so every sweep judges a lapse as the consumer would.
  local TEN_YEARS = 315360000000 -- milliseconds; no delay is longer
  local redelivery, drawn

  -- The client draws one number a call; steps of the golden ratio from there spread a batch evenly over [-1, 1).
  local function draw()
    drawn = drawn and (drawn + 0.6180339887498949) % 1 or tonumber(seed)
    return 2 * drawn - 1
  end

  -- Whether this version can read the policy: a kind that a later version introduced is not read as the default.
  local function can_judge()
    if redelivery == nil then
      local stands, later = read_policy(setting('redelivery'))
      redelivery = stands or not later and read_policy(default_policy)
    end
    return redelivery ~= false
  end

  -- event: nacked, lapsed or, for a dead letter, poisoned. failure.excused: its dependency is down. Returns the outcome: dead, expired, discarded, redelivered
  -- <delay>, or kept <delay> (in its dead-letter queue; without a delay after a lapse).
  local function judge(id, state, head, event, failure)
    local over = state.part ~= 'live' -- a dead-letter queue has no dead-letter queue: it stays where it is
    if over and event == 'lapsed' then
      put(id, state, head)
      return 'kept'
    end
    local counted = event == 'poisoned' and 'nacked' or event
    state[counted] = state[counted] + (failure.of_batch and 0 or 1) -- or a batch's lapse would make suspects of its messages
    state.charged = state.charged + (failure.charge and 1 or 0)
    redis.call('HINCRBY', counters, counted, 1)
    failure.cause = event
    local limit = redelivery.max_redeliveries
    local spent = not over and type(limit) == 'number' and state.charged > limit
    local in_a_row = event == 'nacked' and not (failure.charge or failure.excused or over) and uncharged(state) + 1
    local delay = 0
    if not spent then
      delay = failure.delay or policy_delay(redelivery, math.max(state.charged, 1), draw(), state.delay)
      delay = in_a_row and uncharged_delay(in_a_row, failure.delay, delay, redelivery.collision_avoidance, draw()) or delay
      delay = delay >= 0 and math.min(delay, TEN_YEARS) or 0 -- with a damaged policy it may be NaN
    end
    if over then
      -- Writes into the history of a message that it expired, which until now only its state says; called when the message leaves
      -- that state, or fails in it. Only once (lib/remember).
      local function remember_expiry(id, state)
        if state.reason == 'expired' then
          remember(id, 'expired', attempts(state), 0, '', '', state.due)
        end
      end
      -- Keeps a dead letter or an expired message that failed where it is. It rests before a claim hands it out again
      -- (lib/past_resting), so that it is not redelivered immediately each time.
      local SHORTEST = 1000 -- milliseconds

      local function keep(id, state, head, delay, failure)
        state.delay = math.max(delay, SHORTEST)
        remember_expiry(id, state)
        remember(id, 'kept', attempts(state), state.delay, failure.consumer, failure.error)
        put(id, state, head, nil, now + state.delay)
        outcome('kept', id, head, state, state.delay, failure)
        return 'kept ' .. state.delay
      end
      return keep(id, state, head, delay, failure)
    end
    remember(id, event, attempts(state), delay, failure.consumer, failure.error)
    local expiry = expiry_of(head, state)
    if spent then
      return bury(id, state, head, 'dead', 'exhausted', failure)
    elseif expiry and now + delay >= expiry then
      return bury(id, state, head, 'expired', 'expired', failure)
    end
    state.delay = failure.forgiven and state.delay or delay -- the next delay may grow from it
    taken_up(state)
    state.more = state.more .. (in_a_row and string.format(' uncharged=%.0f', in_a_row) or '')
    if delay > 0 then -- without a delay it returns to its old position (I8)
      state.due = due_in(delay, head)
    end
    put(id, state, head, failure.place or delay > 0)
    outcome('redelivered', id, head, state, delay, failure)
    return 'redelivered ' .. delay
  end
  local needle_of, needle
  local function holds(token, text)
    if token ~= needle_of then
      needle_of, needle = token, ' +' .. token .. ' '
    end
    return text and text:find(needle, 1, true) ~= nil
  end
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
  local EXPIRES = 0x10
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
  local HEADERS = 0x20

  local function lanes_of(record)
    local flags = record:byte(8)
    if flags and math.floor(flags / HEADERS) % 2 == 1 then
      return lanes_in(record, math.floor(flags / EXPIRES) % 2 == 1 and 15 or 9)
    end
  end
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

  local function as_head(birth, flags, expires, lane, needs)
    return {
      birth = birth, priority = math.min(flags % EXPIRES, 9), expires = expires, transient = flags >= TRANSIENT,
      lane = lane, needs = needs,
    }
  end

  local function read_record(record)
    if #record < 14 and (#record < 8 or has_expiry(record)) then
      return { birth = 0, priority = 4 }
    end
    local flags, expires = record:byte(8), has_expiry(record) and unpack_number(record, 9, 6) or nil
    local lane, needs = lanes_of(record)
    return as_head(unpack_number(record, 1, 7), flags, expires, lane, needs)
  end
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
  -- The head of a held message, and whether it is of a later form, as in lib/head_of. If an ack or a discard was cut off,
  -- nil, and the remains of the message are removed.
  local function held_head(id, text)
    local head, later = head_of(id, text)
    if not head and not later then
      local rule_of_keys, has_gates = setting('per_key'), setting('gated')

      local function drop(ids)
        local once_gone, per_key, gated = nil, rule_of_keys, has_gates
        local gone = #ids
        redis.call('HDEL', messages, unpack(ids)) -- from here on they are gone
        if once_gone then
          once_gone(ids)
        end
        redis.call('HDEL', history, unpack(ids))
        redis.call('HDEL', states, unpack(ids)) -- last: by the state a sweep sees that a script was cut off
        if gated then
          local PASS = '\1'
          local function end_passes(ids)
            local passes = {}
            for n, id in ipairs(ids) do
              passes[n] = PASS .. id
            end
            redis.call('ZREM', seats, unpack(passes))
            redis.call('ZREM', gates, unpack(passes))
          end
          end_passes(ids)
        end
        if per_key then -- after the states: lib/tend finds the seat of a message that is gone
          vacate(ids)
        end
        return gone
      end
      drop({ id })
    end
    return head, later
  end
  -- Whether a message on the list of a lapsed claim is nowhere else: another program overwrote its state while it was held,
  -- so no lease that exists holds it, and no index has it, in either form of its member (lib/order).
  local function orphaned(id, state, head)
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
  -- Sweeps a message of a lapsed claim: if the claim still held it, it is redelivered by the policy, charged (I15). In a
  -- worker's claim a message's first lapse is not charged, since another message may have killed the worker, and in a batch
  -- none is, since its driver was down: it is ready immediately, at its old position. A batch's lapse does not make it a
  -- suspect, either (lib/past_suspects). Returns how many messages the claim no longer holds (1 or 0); nil if the message is
  -- left alone, since only a later version can judge it.
  local function sweep_message(id, token, consumer, kind)
    local text = redis.call('HGET', states, id)
    local held = holds(token, text)
    local fewer = held and 1 or 0
    if not held then
      -- The seat of a call whose message was cancelled: it stays taken until the call or its lease has ended, so that an ordered
      -- key never runs two calls. No id begins with this byte.
      local function cancelled_seat(id, token)
        return '\2' .. token .. ' ' .. id
      end
      -- The place, under `max_in_flight`, of a call whose message was cancelled: it stays taken until the call or its lease has
      -- ended. No id begins with this byte.
      local function cancelled_place(id, token)
        return '\3' .. token .. ' ' .. id
      end
      -- Ends a call whose message was cancelled, or its lease: gives back its place, and its seat, and lets in the next message
      -- of its lane. Returns whether it had either; if so, the claim holds one message fewer.
      local function end_cancelled(id, token)
        local place, member = cancelled_place(id, token), cancelled_seat(id, token)
        local kept = redis.call('ZMSCORE', seats, place, member)
        if kept[1] then
          redis.call('ZREM', seats, place)
        end
        if kept[2] then
          vacate({ member })
        end
        return (kept[1] or kept[2]) and true or false
      end
      if end_cancelled(id, token) then
        return 1
      end
    end
    local head, later = (held and held_head or head_of)(id, text)
    if later then
      return not held and 0 or nil
    elseif not head then
      return fewer
    end
    local state = parse_state(text, head.birth)
    if not held and not orphaned(id, state, head) then
      return 0
    elseif not can_judge() then
      return nil
    end
    state.token = '' -- its holder did not settle it, so a repeated call must not be told that it did
    local failure = { charge = true, consumer = consumer, error = lapse_error, of_batch = kind == 'batch' }
    if failure.of_batch or kind == 'worker' and state.lapsed == 0 then
      failure.charge, failure.delay, failure.forgiven = false, 0, true
    end
    if head.needs and setting('gated') then
      local function is_closed(number)
        local lane = (lanes_read[number] or setting('gated')) and read_lane(number)
        return lane and (lane.open or lane.paused and (not lane.ends or lane.ends > now)) and true or false
      end
      local PASS = '\1'
      -- A failure, or a lapse, of a message that needs a closed dependency is neither charged nor delayed. If the message was let
      -- through, it goes behind the others of its lane, so that neither bad heads nor bad newcomers fail every probe.
      --   failure: from lib/judge
      local function spare(id, number, failure)
        failure.charge, failure.delay, failure.excused = false, 0, true
        if redis.call('ZSCORE', seats, PASS .. id) then
          failure.place = BLOCKED + number + 0.5 -- lib/TRIED
        end
      end
      if is_closed(head.needs) then
        spare(id, head.needs, failure)
      end
    end
    if failure.forgiven and state.part == 'live' and head.lane and setting('per_key') then
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
      -- Puts back a message whose delivery does not count: given back, or lapsed for the first time. If keys have a rate,
      -- the slot that it took is free again, for it or the next of its lane.
      --   put_back: puts the message where it belongs
      local function token_back(lane, put_back)
        if not rule.interval then
          put_back()
          return
        end
        redis.call('ZREM', slots, string.format('%.0f', lane))
        put_back()
        let_in({ lane })
      end
      token_back(head.lane, function()
        judge(id, state, head, 'lapsed', failure)
      end)
    else
      judge(id, state, head, 'lapsed', failure)
    end
    return fewer
  end
  -- Takes settled messages off their claims. A lease is removed with the last of its messages.
  --   counts: token → how many
  local function let_go(counts)
    for token, count in pairs(counts) do
      if redis.call('HINCRBY', claims, token .. ':held', -count) <= 0 then
        redis.call('HDEL', claims, token, token .. ':held')
        redis.call('ZREM', leases, token) -- last: by this row a sweep finds what a cut-off script left
      end
    end
  end
  -- Sweeps lapsed leases, message by message (lib/sweep_message). A claim larger than the limit is swept in parts: a swept
  -- message leaves its line of the list empty (lib/claimed), and the lease stays until the last part. Messages that only a
  -- later version can judge stay on the list. They count up to the limit, too: the claim then records the line where the
  -- next sweep continues, and once the end of the list is reached, its lease is extended.
  -- Returns how many messages were swept and how many were left alone, at most `most` and `most_left`.
  local function sweep_claim(token, most, most_left)
    local maker, list = (redis.call('HGET', claims, token) or ''):match('^([^\n]*)\n?(.*)$')
    local consumer, kind, noted, more = maker:match('^([^\t]*)\t?([^\t]*)\t?(%d*)(.*)$')
    local from, line, stopped = tonumber(noted) or 0, -1, false
    local looked, left, swept, gone = 0, 0, 0, {}
    for id in (list .. '\n'):gmatch('([^\n]*)\n') do
      line = line + 1
      if id ~= '' and line >= from then
        stopped = looked == most or left == most_left
        if stopped then
          break
        end
        local count = sweep_message(id, token, consumer, kind)
        if count then
          looked, swept, gone[id] = looked + 1, swept + count, ''
        else
          left = left + 1
        end
      end
    end
    local kept = from > 0 or left > 0
    if not stopped and not kept then
      redis.call('HDEL', claims, token, token .. ':held')
      redis.call('ZREM', leases, token)
      return looked, left
    end
    local on = stopped and kept and line or 0
    if on ~= from then
      maker = table.concat({ consumer, kind, on .. more }, '\t')
    end
    local emptied = list:gsub('[^\n]+', gone)
    redis.call('HSET', claims, token, maker .. '\n' .. emptied)
    if not stopped then
      redis.call('ZADD', leases, now + AGAIN, token)
    end
    if swept > 0 then -- -0 becomes "-0", which Redis does not take as a number
      let_go({ [token] = swept })
    end
    return looked, left
  end

  local function sweep(limit)
    local looked, left = 0, 0
    for _, token in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, limit)) do
      if looked == limit or left == limit then
        break
      end
      local more, more_left = sweep_claim(token, limit - looked, limit - left)
      looked, left = looked + more, left + more_left
    end
    return looked
  end
  local MOVED = 200

  local function promote(limit, leaving)
    local rows = redis.call('ZRANGEBYSCORE', scheduled, '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit or MOVED)
    local moved, members, blocked = {}, {}, {}
    local blocks = #rows > 0 and setting('per_key') and (function()
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
      local function is_closed(number)
        local lane = (lanes_read[number] or setting('gated')) and read_lane(number)
        return lane and (lane.open or lane.paused and (not lane.ends or lane.ends > now)) and true or false
      end
      local WHOLE = string.format('%d', 2 ^ 43) == '8796093022208' and '%d' or '%.0f' -- %d is faster, and has 32 bits on some servers

      local function digits(number)
        return string.format(WHOLE, number)
      end
      local function limit_of(number)
        local lane = rule.of_each and (lanes_read[number] or setting('limited')) and read_lane(number)
        return lane and tonumber(lane.limit) or rule.limit
      end
      local BY_RATE = '.5'
      local function free_seats(lane)
        local score = digits(lane)
        local free = limit_of(lane) - redis.call('ZCOUNT', seats, score, score .. BY_RATE)
        if rule.interval and free > 0 then
          local function slot_of(lane)
            local at = tonumber(redis.call('ZSCORE', slots, string.format('%.0f', lane)) or nil)
            return at and at > now and at <= now + rule.interval and at or nil
          end
          free = not slot_of(lane) and redis.call('ZCOUNT', seats, score .. BY_RATE, score .. BY_RATE) == 0 and 1 or 0
        end
        return free, rule.interval and score .. BY_RATE or score
      end
      local function seat_in(lane)
        return rule.interval and digits(lane) .. BY_RATE or digits(lane)
      end
      local function enter(id, row, lane, full)
        if rule.limit == math.huge then
          return true
        end
        local has_room = not (full and full[lane] or is_closed(lane))
        if has_room then
          local score = digits(BLOCKED + lane)
          local head = redis.call('ZRANGEBYSCORE', scheduled, score, score, 'LIMIT', 0, 1)[1]
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
      local function waiting_lane(id, row, text)
        if text and not text:find('^%a+/?%a* %-') then
          return nil
        end
        local head = head_of(id, text)
        if not (head and head.lane) then
          return nil
        end
        return head.lane, member_of(id, head, parse_state(text, head.birth).due) == row
      end
      local function id_of(member)
        return member:sub(member:byte(1) < 16 and 9 or 3)
      end
      local full, leaves = {}, {}
      for _, id in ipairs(leaving or {}) do
        leaves[id] = true
      end
      return function(row)
        local id = id_of(row)
        if leaves[id] then
          return math.huge
        end
        local lane, is_own = waiting_lane(id, row, redis.call('HGET', states, id))
        if not is_own then
          return false
        end
        local may, slot = enter(id, row, lane, full)
        return not may and (slot or BLOCKED + lane)
      end
    end)()
    for i = 1, #rows, 2 do
      local first, lane = rows[i]:byte(1), blocks and blocks(rows[i])
      if lane and lane < math.huge then
        blocked[#blocked + 1], blocked[#blocked + 2] = lane, rows[i]
      elseif not lane then
        members[#members + 1] = rows[i]
        local priority = first < 10 and 9 - first or 4 -- or it was put off (lib/put_off)
        moved[#moved + 1], moved[#moved + 2] = score_of(priority, tonumber(rows[i + 1])), rows[i]
      end
    end
    if #blocked > 0 then
      redis.call('ZADD', scheduled, unpack(blocked))
    end
    if #members > 0 then
      redis.call('ZADD', ready, unpack(moved))
      redis.call('ZREM', scheduled, unpack(members))
    end
    return #rows / 2
  end
  -- Removes the old row of a message that waited. The last step of a move or a removal: by that row a claim finds what a
  -- cut-off script left.
  --   new_index, new_row: the row that it has now, which stays, as lib/put returns it; nil: it has none, or is buried
  local function leave(id, index, row, new_index, new_row)
    if new_index ~= ready and new_index ~= scheduled then -- its time to live has ended
      redis.call('ZREM', expiring, id)
    end
    if new_index ~= index or new_row ~= row then
      redis.call('ZREM', index, row)
    end
  end
  -- Expires one waiting message (I7).
  local function expire_message(id, state, head)
    local member = member_of(id, head, state.due)
    bury(id, state, head, 'expired', 'expired')
    redis.call('ZREM', ready, member) -- it was in one of the two
    leave(id, scheduled, member)
  end
  -- Expires messages whose time to live has ended. An index holds the waiting messages that have one (I7). Returns how many
  -- rows it checked.
  local function expire(limit)
    local ids = redis.call('ZRANGEBYSCORE', expiring, '-inf', now, 'LIMIT', 0, limit)
    for _, id in ipairs(ids) do
      local text = redis.call('HGET', states, id)
      local head, later = head_of(id, text)
      local state = head and parse_state(text, head.birth)
      local waits = state and state.part == 'live' and state.mark == '-'
      local expires = waits and expiry_of(head, state)
      if later then
        redis.call('ZADD', expiring, now + AGAIN, id)
      elseif not expires then -- left behind by a script that was cut off
        redis.call('ZREM', expiring, id)
      elseif expires > now then
        redis.call('ZADD', expiring, expires, id)
      else
        expire_message(id, state, head)
      end
    end
    return #ids
  end
  sweep(STEPS)
  behind = redis.call('ZCOUNT', leases, '-inf', now) > 0
  if behind and thorough == '1' then
    local function wake_one()
      if redis.call('LLEN', wake) == 0 then
        redis.call('LPUSH', wake, 1)
        redis.call('PEXPIRE', wake, 5000) -- a client claims before it waits, so the token may expire; none is left behind (I13)
      end
    end
    sweep(BEHIND)
    wake_one()
    return { now, 0 }
  end
  promote(STEPS + math.min(count, DUE))
  expire(STEPS)
  if part ~= 'live' and redis.call('ZCARD', ready) > 0 then
    local function wake_one()
      if redis.call('LLEN', wake) == 0 then
        redis.call('LPUSH', wake, 1)
        redis.call('PEXPIRE', wake, 5000) -- a client claims before it waits, so the token may expire; none is left behind (I13)
      end
    end
    wake_one()
  end
end
-- How many messages a claim may lease: none while the queue is paused, and never more than the queue's max_in_flight
-- leaves. A message that waits for its redelivery is not in flight; a dead letter that is claimed is, and so is the call of a
-- cancelled message, until it has ended. A value, not a
-- function: every claim needs it, and to define a function costs Redis as much as a command. A claim ends here if the queue
-- was deleted since the client opened it. `per_key`, `gated`: the settings of keys and of closed lanes; `paced`: whether
-- keys have a rate; `narrowed`: whether lanes may have too many seats (lib/narrow); `resumes`: when the pause ends, nil: it
-- has no end, or the queue is not paused; `by_rate`: the messages that the rate allows (lib/pace), nil: no rate.
local capacity, per_key, paced, gated, narrowed, resumes, by_rate = count, nil, nil, nil, nil, nil, nil
if part == 'live' then
  local values = redis.call(
    'HMGET', settings, 'paused', 'max_in_flight', 'opening', 'per_key', 'gated', 'paused_until', 'rate', 'narrowed',
    'cancelling'
  )
  if opening ~= '' and values[3] ~= opening then
    return { now, -3 }
  end
  per_key, gated, narrowed = values[4], values[5], values[8]
  paced = per_key and per_key:find('rate ', 1, true)
  local most = tonumber((values[2] or ''):match('^%d+$') or nil)
  resumes = values[1] == '1' and tonumber(values[6] or nil) or nil
  if resumes and resumes <= now then
    redis.call('HDEL', settings, 'paused', 'paused_until')
    values[1], resumes = false, nil
  end
  if values[1] == '1' then
    capacity = 0
  elseif most and most > 0 then
    local in_flight = redis.call('HLEN', messages)
    if values[9] then
      local needle_of, needle
      local function holds(token, text)
        if token ~= needle_of then
          needle_of, needle = token, ' +' .. token .. ' '
        end
        return text and text:find(needle, 1, true) ~= nil
      end
      -- The score, in `seats`, of the places of calls whose messages were cancelled (lib/cancelled_place); that of a seat is a lane.
      local PLACES = -1
      -- How many calls of cancelled messages count against `max_in_flight`. A place without a lease is removed: another program
      -- ended its claim; and one whose message is still held, since the cancel was cut off. If none is left, claims look for none.
      local READ = 100 -- places that one claim checks (I9)

      local function cancelled_calls()
        local count = redis.call('ZCOUNT', seats, PLACES, PLACES)
        for _, place in ipairs(redis.call('ZRANGEBYSCORE', seats, PLACES, PLACES, 'LIMIT', 0, READ)) do
          local token, id = place:match('^.(%S+) (.*)$')
          if not redis.call('ZSCORE', leases, token) or holds(token, redis.call('HGET', states, id)) then
            redis.call('ZREM', seats, place)
            count = count - 1
          end
        end
        if count == 0 then
          redis.call('HDEL', settings, 'cancelling')
        end
        return count
      end
      in_flight = in_flight + cancelled_calls()
    end
    for _, index in ipairs({ ready, scheduled, dead, expired }) do
      in_flight = in_flight - redis.call('ZCARD', index)
    end
    capacity = math.max(0, math.min(count, most - in_flight))
  end
  if values[7] then
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
    -- How many messages a rate allows now: a bucket of tokens, one for each message, kept as the time until which the messages
    -- so far use up the rate (GCRA). A burst is the messages of a second, at least one. A time further ahead than that counts
    -- as now: the clock stepped back.
    --   rate: as lib/interval_of reads it
    --   reached: the time that is kept, or false
    --   Returns nil, or { interval: milliseconds between two messages; from: the time from which the next ones use up the rate;
    --   most: how many are allowed now; at: when one more is allowed, milliseconds }.
    local function pace(rate, reached)
      local interval = interval_of(rate)
      if not interval then
        return nil
      end
      local burst = math.max(1000, interval) -- milliseconds
      local from = tonumber(reached or nil)
      if not from or from < now or from > now + burst + interval then
        from = now
      end
      local most = math.floor((now + burst - from) / interval + 0.001) -- a time has no more digits
      return { interval = interval, from = from, most = most, at = math.ceil(from + (most + 1) * interval - burst) }
    end
    by_rate = pace(values[7], redis.call('HGET', counters, 'rate_until'))
    capacity = math.min(capacity, by_rate and by_rate.most or capacity)
  end
  if per_key or gated then
    -- Before a claim takes messages of a queue with a rule for keys, or with closed lanes: handles gates and slots that are due
    -- (lib/pass_gates, lib/pass_slots), and repairs lanes, once a second (lib/tend). If lanes take turns and fewer messages are
    -- ready than it may take, it lets in the rest from all lanes alike, so that even one lane fills a batch. These are handed
    -- out now, so no lane exceeds its window permanently.
    local PAUSE = 1000 -- milliseconds between two calls of tend

    local function prepare_lanes(per_key, paced, gated, capacity)
      if gated and capacity > 0 then
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
        local PASS = '\1'
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
        local WHOLE = string.format('%d', 2 ^ 43) == '8796093022208' and '%d' or '%.0f' -- %d is faster, and has 32 bits on some servers

        local function digits(number)
          return string.format(WHOLE, number)
        end
        local TRIED = '.5'
        -- The longest wait until the next probe of a dependency, milliseconds: `breaker.longest`, twice as long for each call that
        -- was let through and did not end in that time, at most an hour. And how many such calls there are.
        --   name: its lane, as text
        local HOUR = 3600000

        local function hung_wait(name)
          local hung = redis.call('ZCOUNT', seats, name .. TRIED, name .. TRIED)
          return hung == 0 and breaker.longest or math.min(breaker.longest * 2 ^ hung, HOUR), hung
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
        local function id_of(member)
          return member:sub(member:byte(1) < 16 and 9 or 3)
        end
        local MARK, FLAGS, AGAIN = '^>=%d[%d.]* ', 0x0F, 60000 -- milliseconds until it is checked again

        local function is_later(record, text)
          return text and text:find(MARK) ~= nil or record:byte(8) == FLAGS and record:find(MARK, 9) ~= nil
        end
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
        local EXPIRES = 0x10
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
        local HEADERS = 0x20

        local function lanes_of(record)
          local flags = record:byte(8)
          if flags and math.floor(flags / HEADERS) % 2 == 1 then
            return lanes_in(record, math.floor(flags / EXPIRES) % 2 == 1 and 15 or 9)
          end
        end
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

        local function as_head(birth, flags, expires, lane, needs)
          return {
            birth = birth, priority = math.min(flags % EXPIRES, 9), expires = expires, transient = flags >= TRANSIENT,
            lane = lane, needs = needs,
          }
        end

        local function read_record(record)
          if #record < 14 and (#record < 8 or has_expiry(record)) then
            return { birth = 0, priority = 4 }
          end
          local flags, expires = record:byte(8), has_expiry(record) and unpack_number(record, 9, 6) or nil
          local lane, needs = lanes_of(record)
          return as_head(unpack_number(record, 1, 7), flags, expires, lane, needs)
        end
        local function head_in(record, text)
          local birth, flags, expires, lane, needs = stated_head(text)
          if birth then
            return as_head(birth, flags, expires > 0 and expires or nil, lane, needs)
          end
          return read_record(record)
        end
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
        local BAND = 2 ^ 42

        local function score_of(priority, due)
          return (9 - priority) * BAND + due
        end

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
        local function is_closed(number)
          local lane = (lanes_read[number] or setting('gated')) and read_lane(number)
          return lane and (lane.open or lane.paused and (not lane.ends or lane.ends > now)) and true or false
        end
        local function limit_of(number)
          local lane = rule.of_each and (lanes_read[number] or setting('limited')) and read_lane(number)
          return lane and tonumber(lane.limit) or rule.limit
        end
        local BY_RATE = '.5'
        local function free_seats(lane)
          local score = digits(lane)
          local free = limit_of(lane) - redis.call('ZCOUNT', seats, score, score .. BY_RATE)
          if rule.interval and free > 0 then
            local function slot_of(lane)
              local at = tonumber(redis.call('ZSCORE', slots, string.format('%.0f', lane)) or nil)
              return at and at > now and at <= now + rule.interval and at or nil
            end
            free = not slot_of(lane) and redis.call('ZCOUNT', seats, score .. BY_RATE, score .. BY_RATE) == 0 and 1 or 0
          end
          return free, rule.interval and score .. BY_RATE or score
        end
        local function seat_in(lane)
          return rule.interval and digits(lane) .. BY_RATE or digits(lane)
        end
        local function enter(id, row, lane, full)
          if rule.limit == math.huge then
            return true
          end
          local has_room = not (full and full[lane] or is_closed(lane))
          if has_room then
            local score = digits(BLOCKED + lane)
            local head = redis.call('ZRANGEBYSCORE', scheduled, score, score, 'LIMIT', 0, 1)[1]
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
        -- Lets in messages of a dependency that is up again, never more than 32 at a time, or as many as the last batch that
        -- succeeded had, so that other messages do not wait behind a flood. If none is out any more, it goes on by probes
        -- (lib/pass_gates). When none is blocked, and none is ready or being processed, the drain ends.
        --   count: the most messages that this call lets in
        local AT_ONCE = 32 -- ready or being processed

        local function drain(number, lane, count)
          local name = digits(number)
          local room = math.max(AT_ONCE, lane.most or 0) - redis.call('ZCOUNT', seats, name, name)
          count = math.max(0, math.min(count, room))
          if count > 0 then
            let_through(number, parked_rows(number, count), count)
          end
          local waiting, out = count_parked(number), redis.call('ZCOUNT', seats, name, name)
          local longest, hung = hung_wait(name)
          lane.hung = hung > 0 and lane.hung or nil
          if waiting + out + hung > 0 then
            lane.drain = now + (out == 0 and hung > 0 and (waiting > 0 and longest or breaker.longest) or breaker.probe)
          else
            lane.drains, lane.drain, lane.most = nil, nil, nil
          end
          write_lane(number, lane)
        end
        -- Opens a closed lane: the lane of a key lets in messages that have or get a seat; the lane of a dependency drains.
        local ROWS = 1000 -- rows of a key without a rule; lib/tend does the rest (I9)
        local AT_FIRST = 32

        local function reopen(number, lane)
          lane.paused, lane.ends, lane.by, lane.open = nil, nil, nil, nil
          if lane.of == 'dependency' then
            lane.probe, lane.probes, lane.wait, lane.idle, lane.dead, lane.died, lane.error = nil, nil, nil, nil, nil, nil, nil
            lane.drains, lane.drain = lane.drains or now, now + breaker.probe
            write_lane(number, lane) -- first: while it is open, only probes have a pass
            drain(number, lane, AT_FIRST)
            return
          end
          write_lane(number, nil)
          if rule.limit < math.huge then
            return let_in({ number })
          end
          local score, due = digits(BLOCKED + number), {}
          for _, row in ipairs(redis.call('ZRANGEBYSCORE', scheduled, score, score, 'LIMIT', 0, ROWS)) do
            due[#due + 1], due[#due + 2] = now, row
          end
          if #due > 0 then
            redis.call('ZADD', scheduled, unpack(due))
          end
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
        -- Records an act of an operator, or one that an operator had ordered; a queue keeps the newest thousand notes.
        --   did: the act, in a word; by: the operator, as JSON; user: the Redis user; then more names and values
        local MOST_NOTES = '1000'

        local function note_audit(did, by, user, ...)
          redis.call('XADD', audit, 'MAXLEN', '~', MOST_NOTES, '*', 'did', did, 'by', by, 'user', user, ...)
          redis.call('PERSIST', audit) -- the queue may have been deleted (delete), and created again
        end
        -- Tests a dependency whose breaker is open, if no message is on its way. The wait until the next probe doubles. Beside calls
        -- that hang, one message comes instead of three, and later (lib/hung_wait). If no message waits twice in a row, and none
        -- hangs, the breaker is closed.
        local AT_A_TIME = 3

        local function probe(number, lane)
          local name, wait = digits(number), math.min(lane.wait or breaker.probe, breaker.longest)
          local longest, hung = hung_wait(name)
          lane.probe = now + (hung > 0 and longest or wait)
          lane.hung = hung > 0 and lane.hung or nil
          if redis.call('ZCOUNT', seats, name, name) > 0 then
            lane.probe = now + breaker.probe
          elseif count_parked(number) > 0 then
            lane.wait, lane.idle = 2 * wait, nil
            let_probe(number, lane, hung > 0 and 1 or AT_A_TIME, tonumber(seed))
          elseif lane.idle and hung == 0 then
            note_audit('closed', '"breaker"', '', 'number', 0, 'chosen', 'dependency ' .. lane.name)
            lane = nil
          else
            lane.idle, lane.probe = true, now + longest
          end
          write_lane(number, lane)
        end
        -- Ends a pass that has been out for `breaker.longest`, so that a call that hangs keeps no dependency closed. Such a call may
        -- go on; its pass no longer counts among those that are out. The more such calls there are, the later the next probe comes:
        -- otherwise they would take all workers. A message that no consumer has claimed in that time waits again.
        --   member: of `gates` (lib/let_through); at: its score there
        local function end_pass(member, at)
          local number = tonumber(redis.call('ZSCORE', seats, member) or nil)
          if number and number % 1 == 0 then
            local text, lane = redis.call('HGET', states, member:sub(2)), read_lane(number)
            if lane and text and text:find('^%a+/?%a* %+') then
              redis.call('ZADD', seats, number + 0.5, member) -- lib/TRIED
              local began = at - breaker.longest
              local following = began + hung_wait(digits(number))
              lane.probe = lane.open and math.max(lane.probe or 0, following) or nil
              lane.drain = lane.drains and math.max(lane.drain or 0, following) or nil
              lane.hung = lane.hung or began
              write_lane(number, lane)
            else
              redis.call('ZREM', seats, member)
            end
          end
          redis.call('ZREM', gates, member)
        end
        -- Handles due events of lanes: a probe, a step of a drain, the end of a pause, of a pass, or of the time in which failures do
        -- not open a breaker.
        local LANES, GATES = 10, 100 -- lanes, and lanes and passes, per call (I9)
        local THREE = 3

        -- A drain in which no message is out goes on by probes.
        local function go_on(number, lane)
          local name = digits(number)
          if redis.call('ZCOUNT', seats, name, name) == 0 then
            let_probe(number, lane, lane.hung and 1 or THREE, tonumber(seed))
          end
          drain(number, lane, 0)
        end

        local function pass_lane(number, lane)
          if lane.paused and not (lane.ends and lane.ends <= now) then
            write_lane(number, lane) -- it ends at its own time or when it is resumed, whatever else is due
          elseif lane.open and setting('breaker') then
            lane.paused, lane.ends, lane.by = nil, nil, nil
            if (lane.probe or now) > now and lane.probe <= now + hung_wait(digits(number)) then
              write_lane(number, lane)
            else
              probe(number, lane)
            end
          elseif lane.open or lane.paused then
            reopen(number, lane)
          elseif lane.drains then
            go_on(number, lane)
          else
            lane.trusts = lane.trusts and lane.trusts > now and lane.trusts or nil
            write_lane(number, lane)
          end
        end

        local function pass_gates()
          local due = redis.call('ZRANGEBYSCORE', gates, '-inf', now, 'WITHSCORES', 'LIMIT', 0, GATES)
          local passed = 0
          for n = 1, #due, 2 do
            local number = tonumber(due[n])
            if due[n]:sub(1, 1) == PASS then
              end_pass(due[n], tonumber(due[n + 1]))
            elseif passed < LANES then
              passed = passed + 1
              local lane = read_lane(number)
              if lane then
                pass_lane(number, lane)
              else
                write_lane(number, nil)
              end
            end
          end
          if #due == 2 * GATES or passed == LANES then
            wake_one() -- more may be due
          end
        end
        pass_gates()
      end
      if paced and capacity > 0 then
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
        -- Lets in the next of each lane whose slot has passed by the rate of keys, and forgets the slot: two per message that a
        -- claim takes.
        local SPARE, PASSED = 10, 1000 -- lanes, as many as lib/let_in reads (I9)

        local function pass_slots(count)
          local names = redis.call('ZRANGEBYSCORE', slots, '-inf', now, 'LIMIT', 0, math.min(2 * count + SPARE, PASSED))
          if #names == 0 then
            return
          end
          local lanes = {}
          for n, name in ipairs(names) do
            lanes[n] = tonumber(name)
          end
          if rule.interval then
            let_in(lanes)
          end
          redis.call('ZREM', slots, unpack(names)) -- last: by these the next claim finds what a cut-off script left
        end
        pass_slots(capacity)
      end
      local at = tonumber((redis.call('GET', tended) or ''):match('^%d+') or 0)
      if at > now or now >= at + PAUSE then -- or the clock stepped back
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
        local TRIED = '.5'
        local WHOLE = string.format('%d', 2 ^ 43) == '8796093022208' and '%d' or '%.0f' -- %d is faster, and has 32 bits on some servers

        local function digits(number)
          return string.format(WHOLE, number)
        end
        -- If keys no longer have a rule: makes blocked messages of these lanes due, some per call; when none is left, forgets the
        -- seats and the rule.
        local UNBLOCKED = 1000 -- rows per call (I9)

        local function unblock(lanes)
          local due = {}
          for _, lane in ipairs(lanes) do
            local score = digits(BLOCKED + lane)
            local most = UNBLOCKED - #due / 2
            for _, row in ipairs(most > 0 and redis.call('ZRANGEBYSCORE', scheduled, score, score .. TRIED, 'LIMIT', 0, most) or {}) do
              due[#due + 1], due[#due + 2] = now, row
            end
          end
          if #due > 0 then
            redis.call('ZADD', scheduled, unpack(due))
          elseif setting('per_key') == 'off' and redis.call('ZCOUNT', scheduled, BLOCKED, '+inf') == 0 then
            redis.call('UNLINK', seats, slots, tended) -- otherwise `per_key` is damaged, or of a later version, or messages are blocked
            redis.call('HDEL', settings, 'per_key', 'narrowed')
          end
        end
        local function is_closed(number)
          local lane = (lanes_read[number] or setting('gated')) and read_lane(number)
          return lane and (lane.open or lane.paused and (not lane.ends or lane.ends > now)) and true or false
        end
        local function is_gated(number)
          local lane = (lanes_read[number] or setting('gated')) and read_lane(number)
          return lane and (lane.of == 'dependency' or is_closed(number)) or false
        end
        local said = setting('breaker') or ''
        local breaker = {
          distinct = tonumber(said:match('^distinct=(%d+) ') or nil) or math.huge,
          within = tonumber(said:match(' within=(%d+)ms') or nil) or 0,
          share = tonumber(said:match(' share=([%d.]+)') or nil) or 1,
          probe = tonumber(said:match(' probe=(%d+)ms') or nil) or 1000,
          longest = tonumber(said:match(' longest_probe=(%d+)ms') or nil) or 30000,
        }
        local HOUR = 3600000

        local function hung_wait(name)
          local hung = redis.call('ZCOUNT', seats, name .. TRIED, name .. TRIED)
          return hung == 0 and breaker.longest or math.min(breaker.longest * 2 ^ hung, HOUR), hung
        end
        -- Makes a lane due now whose gate is missing, or further away than a probe can be, since the clock stepped back, or calls
        -- that hung have ended, or the queue no longer has a breaker. A pause is left as it is.
        local function recheck(number)
          local lane, name = read_lane(number), string.format('%.0f', number)
          if not (lane.open or lane.drains) or lane.paused then
            return
          end
          local at = tonumber(redis.call('ZSCORE', gates, name) or nil)
          local longest = hung_wait(name)
          if lane.open and not setting('breaker') or not (at and at <= now + longest) then
            redis.call('ZADD', gates, now, name)
          end
        end
        local PASS = '\1'
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
        -- The first `limit` rows of an index after (score, member), up to (last_score, last_member); then the score and the member
        -- of the last of them, if more follow, otherwise both empty.
        local function rows_of_range(index, range)
          local low = rows_up_to(index, range.score, range.member)
          local stop = rows_up_to(index, range.last_score, range.last_member)
          local high = math.min(low + range.limit, stop)
          if low >= high then
            return {}, '', ''
          end
          local rows = redis.call('ZRANGE', index, low, high - 1)
          if high >= stop then
            return rows, '', ''
          end
          return rows, redis.call('ZSCORE', index, rows[#rows]), rows[#rows]
        end
        local PLACES = -1
        local function keeps_seat(state, waits)
          if state.part ~= 'live' then
            return rule.holds and state.part == 'dead' and state.reason ~= 'expired'
          end
          return not waits or rule.in_order
        end
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
        local MARK, FLAGS, AGAIN = '^>=%d[%d.]* ', 0x0F, 60000 -- milliseconds until it is checked again

        local function is_later(record, text)
          return text and text:find(MARK) ~= nil or record:byte(8) == FLAGS and record:find(MARK, 9) ~= nil
        end
        local EXPIRES = 0x10
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
        local HEADERS = 0x20

        local function lanes_of(record)
          local flags = record:byte(8)
          if flags and math.floor(flags / HEADERS) % 2 == 1 then
            return lanes_in(record, math.floor(flags / EXPIRES) % 2 == 1 and 15 or 9)
          end
        end
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

        local function as_head(birth, flags, expires, lane, needs)
          return {
            birth = birth, priority = math.min(flags % EXPIRES, 9), expires = expires, transient = flags >= TRANSIENT,
            lane = lane, needs = needs,
          }
        end

        local function read_record(record)
          if #record < 14 and (#record < 8 or has_expiry(record)) then
            return { birth = 0, priority = 4 }
          end
          local flags, expires = record:byte(8), has_expiry(record) and unpack_number(record, 9, 6) or nil
          local lane, needs = lanes_of(record)
          return as_head(unpack_number(record, 1, 7), flags, expires, lane, needs)
        end
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
        local BAND = 2 ^ 42

        local function score_of(priority, due)
          return (9 - priority) * BAND + due
        end

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
        local function wake_one()
          if redis.call('LLEN', wake) == 0 then
            redis.call('LPUSH', wake, 1)
            redis.call('PEXPIRE', wake, 5000) -- a client claims before it waits, so the token may expire; none is left behind (I13)
          end
        end
        -- Whether a message keeps the seat that it holds; one that is still blocked in the lane of its key becomes ready. The seat
        -- of a call whose message was cancelled stays as long as the lease (lib/cancelled_seat). If keys have a rate, a blocked
        -- message gives its seat back; and a leased one whose claim was cut off takes its slot now. Places are left to
        -- lib/cancelled_calls.
        --   own: the score of the seat
        local function seat_is_due(id, own)
          if own == PLACES then
            return true
          end
          local token, cancelled = id:match('^\2(%S+) (.*)$')
          if token then -- if the cancel was cut off, the message is still held, and has its own
            local still_held = (redis.call('HGET', states, cancelled) or ''):find(' +' .. token .. ' ', 1, true)
            return redis.call('ZSCORE', leases, token) ~= false and not still_held
          end
          local text = redis.call('HGET', states, id)
          local head, later = head_of(id, text)
          if not head then
            return later
          end
          local state = parse_state(text, head.birth)
          if state.mark == '+' then
            if rule.interval and own % 1 > 0 then
              -- Takes the slots of messages that are handed out, if keys have a rate: the next of each lane follows after an interval.
              -- Returns when.
              local KEPT = 86400000 -- milliseconds for which slots stay that no claim forgets (lib/pass_slots)

              local function take_slots(ids)
                local next_at, taken, given = now + rule.interval, {}, {}
                for n, seat in ipairs(redis.call('ZMSCORE', seats, unpack(ids))) do
                  if seat then
                    local lane = string.format('%.0f', math.floor(tonumber(seat)))
                    taken[#taken + 1], taken[#taken + 2] = next_at, lane
                    given[#given + 1], given[#given + 2] = lane, ids[n]
                  end
                end
                if #taken > 0 then
                  redis.call('ZADD', slots, unpack(taken))
                  redis.call('PEXPIRE', slots, math.ceil(rule.interval) + KEPT)
                  redis.call('ZADD', seats, unpack(given)) -- it was let in by the rate, and no longer counts as ready
                end
                return next_at
              end
              take_slots({ id })
            end
            return not rule.in_turn
          end
          local member = member_of(id, head, state.due)
          local score = state.part == 'live' and tonumber(redis.call('ZSCORE', scheduled, member) or 0) or 0
          local is_blocked = head.lane and score == BLOCKED + head.lane
          if is_blocked and (rule.interval or is_closed(head.lane)) then
            return false
          elseif is_blocked then
            redis.call('ZADD', ready, score_of(head.priority, now), member)
            redis.call('ZREM', scheduled, member)
            wake_one()
          end
          return keeps_seat(state, score > 0 and not is_blocked)
        end
        -- Whether a message that was let through the gate of its dependency keeps the pass: it is ready or being processed, and the
        -- gate still exists. A pass whose end is missing, or too far away since the clock stepped back, ends now.
        --   number: the score of the pass
        local function pass_is_due(id, number)
          local text = redis.call('HGET', states, id)
          local head, later = head_of(id, text)
          if not head then
            return later
          end
          local state = parse_state(text, head.birth)
          local is_there = state.mark == '+' or redis.call('ZSCORE', ready, member_of(id, head, state.due))
          local keeps = state.part == 'live' and is_there and read_lane(math.floor(number)) and true or false
          local ends = keeps and number % 1 == 0 and tonumber(redis.call('ZSCORE', gates, PASS .. id) or math.huge)
          if ends and ends > now + breaker.longest then
            redis.call('ZADD', gates, now, PASS .. id)
          end
          return keeps
        end
        -- The part of lib/tend that reads seats and passes, some per call: those go that no message should hold. Returns where the
        -- next call continues.
        --   place: the value that the last call returned; nil: from the front
        local SEATS = 100 -- seats that one call reads (I9)

        local function tend_seats(place)
          local score, member = (place or ''):match('^(%S+) (.*)$')
          local range = { score = score or '-inf', member = member or '', last_score = '+inf', last_member = '\255', limit = SEATS }
          local held, next_score, next_member = rows_of_range(seats, range)
          local lost, of_keys = {}, {}
          for _, id in ipairs(held) do
            local own = tonumber(redis.call('ZSCORE', seats, id) or 0)
            local keeps
            if id:sub(1, 1) == PASS then
              keeps = pass_is_due(id:sub(2), own)
            else
              keeps, of_keys[#of_keys + 1] = seat_is_due(id, own), id
            end
            if not keeps then
              lost[#lost + 1] = id
            end
          end
          if #lost > 0 then
            vacate(lost)
          end
          if #of_keys > 0 and (setting('narrowed') or not rule.in_turn) then
            local function limit_of(number)
              local lane = rule.of_each and (lanes_read[number] or setting('limited')) and read_lane(number)
              return lane and tonumber(lane.limit) or rule.limit
            end
            local BY_RATE = '.5'
            local function free_seats(lane)
              local score = digits(lane)
              local free = limit_of(lane) - redis.call('ZCOUNT', seats, score, score .. BY_RATE)
              if rule.interval and free > 0 then
                local function slot_of(lane)
                  local at = tonumber(redis.call('ZSCORE', slots, string.format('%.0f', lane)) or nil)
                  return at and at > now and at <= now + rule.interval and at or nil
                end
                free = not slot_of(lane) and redis.call('ZCOUNT', seats, score .. BY_RATE, score .. BY_RATE) == 0 and 1 or 0
              end
              return free, rule.interval and score .. BY_RATE or score
            end
            -- The messages that hold seats with these scores and are still ready: for each its id, its row, and the rank of that in `ready`.
            local HOLDERS = 1000 -- that it reads (I9)

            local function ready_holders(first, last)
              local found = {}
              for _, id in ipairs(redis.call('ZRANGEBYSCORE', seats, first, last, 'LIMIT', 0, HOLDERS)) do
                local text = redis.call('HGET', states, id)
                local head = head_of(id, text)
                local row = head and member_of(id, head, parse_state(text, head.birth).due)
                local rank = row and redis.call('ZRANK', ready, row)
                if rank then
                  found[#found + 1] = { id = id, row = row, rank = rank }
                end
              end
              return found
            end
            -- Moves the row of a message from `ready` to its lane, where it waits for a seat. Its state stays.
            local function block(lane, row)
              redis.call('ZADD', scheduled, BLOCKED + lane, row)
              redis.call('ZREM', ready, row)
            end
            -- After a rule for keys, or the limit of a key, allows fewer messages at work than before: of lanes in which a claim or
            -- lib/tend finds seats, takes away those that are too many. Ready messages lose theirs and are blocked, the last ones
            -- first; a leased message keeps its own until it is done.
            --   held: for each id the score of its seat, or false
            -- Returns `held` as it is then, and whether leased messages hold too many seats.

            -- How many lost their seats, and how many seats are still too many.
            local function narrow_lane(lane)
              local surplus = -free_seats(lane)
              if surplus <= 0 then
                return 0, 0
              end
              local holders = ready_holders(digits(lane), digits(lane) .. BY_RATE)
              table.sort(holders, function(one, other) return one.rank > other.rank end)
              local losers = math.min(surplus, #holders)
              for n = 1, losers do
                redis.call('ZREM', seats, holders[n].id) -- first: a cut-off script may leave a free seat, never one too many
                block(lane, holders[n].row)
              end
              return losers, surplus - losers
            end

            local function narrow(held, ids)
              local seen, blocked, left = {}, 0, 0
              for _, score in ipairs(held) do
                local lane = score and score - score % 1 -- lib/BY_RATE
                if lane and lane >= 0 and not seen[lane] then -- not of a place (lib/PLACES)
                  seen[lane] = true
                  local losers, too_many = narrow_lane(lane)
                  blocked, left = blocked + losers, left + too_many
                end
              end
              return blocked > 0 and redis.call('ZMSCORE', seats, unpack(ids)) or held, left > 0
            end
            -- How many walks over all seats lib/tend ends before the setting `narrowed` is cleared: one may be half done when it is set.
            local NARROWED = 2
            local _, too_many = narrow(redis.call('ZMSCORE', seats, unpack(of_keys)), of_keys)
            if too_many then -- until these are done, claims look for such lanes
              redis.call('HSET', settings, 'narrowed', NARROWED)
            end
          end
          return (next_score == '' and '-inf' or next_score) .. ' ' .. next_member
        end
        -- Repairs what a script that was cut off left behind in lanes: lets in blocked messages beside a free seat, makes blocked
        -- messages with a seat ready, and takes seats away from messages that are gone, or hold none in their place. Reads some
        -- lanes and some seats per call, and the next call continues there: however many lanes are held, each has its turn. Closed
        -- lanes have gates of their own (lib/pass_gates); if none is left, the settings are cleared.
        local LANES = 100 -- lanes that one call reads (I9)
        local KEPT = 600000 -- milliseconds for which the position is kept

        local function tend()
          local front = string.format('%.0f', BLOCKED - 1)
          local after, place = (redis.call('GET', tended) or ''):match('^%d+ (%d+) (.*)$')
          local open = {}
          after = after or front
          for _ = 1, LANES do
            local found = redis.call('ZRANGEBYSCORE', scheduled, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
            after = found or front
            if not found then
              break
            end
            local lane = math.floor(tonumber(found)) - BLOCKED -- lib/TRIED
            if is_gated(lane) then
              recheck(lane)
            else
              open[#open + 1] = lane
            end
          end
          if rule.limit < math.huge then
            let_in(open)
          else
            unblock(open)
          end
          local next_place = tend_seats(place)
          redis.call('SET', tended, now .. ' ' .. after .. ' ' .. next_place, 'PX', KEPT)
          if setting('narrowed') and next_place:find('^%-inf') and redis.call('HINCRBY', settings, 'narrowed', -1) <= 0 then
            redis.call('HDEL', settings, 'narrowed') -- every seat was read since a rule allowed fewer (lib/tend_seats)
          end
          local nobody_waits = rule.limit < math.huge or redis.call('ZCOUNT', scheduled, BLOCKED, '+inf') == 0
          if (setting('gated') or setting('limited')) and nobody_waits and redis.call('EXISTS', lanes, gates) == 0 then
            redis.call('HDEL', settings, 'gated', 'limited')
          end
        end
        tend()
      end
      local lacking = per_key and not paced and per_key:find('^fair') and capacity - redis.call('ZCARD', ready) or 0
      if lacking > 0 then
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
        local function is_closed(number)
          local lane = (lanes_read[number] or setting('gated')) and read_lane(number)
          return lane and (lane.open or lane.paused and (not lane.ends or lane.ends > now)) and true or false
        end
        local function is_gated(number)
          local lane = (lanes_read[number] or setting('gated')) and read_lane(number)
          return lane and (lane.of == 'dependency' or is_closed(number)) or false
        end
        -- Lets in `count` blocked messages, from all lanes alike.
        local LANES = 100 -- lanes that fill one claim (I9)

        local function fill(count)
          local lanes, score = {}, string.format('%.0f', BLOCKED)
          for _ = 1, LANES do
            if not score or #lanes == count then
              break
            end
            score = redis.call('ZRANGEBYSCORE', scheduled, score, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
            local lane = score and math.floor(tonumber(score)) - BLOCKED -- lib/TRIED
            lanes[#lanes + 1] = lane and not is_gated(lane) and lane or nil
            score = score and '(' .. score
          end
          if #lanes == 0 then
            return
          end
          local share, first, room = math.floor(count / #lanes), math.floor(tonumber(seed) * #lanes), {}
          for n = 1, #lanes do -- by the seed, since not all can have the rest
            room[lanes[(first + n) % #lanes + 1]] = n <= count - share * #lanes and share + 1 or share
          end
          let_in(lanes, room)
        end
        fill(lacking)
      end
    end
    prepare_lanes(per_key, paced, gated, capacity)
  end
end
-- The index that a claim takes from.
local source = part == 'dead' and dead or part == 'expired' and expired or ready
-- Matches a state line (lib/state) of a message whose lease has lapsed before; captures how often it was charged.
local lapsed_before = '^%a+/?%a* [+-]%S* %d+ %d+ (%d+) %d+ [1-9]'
-- The first rows of the index that a claim takes from, as many as it may lease, with their ids and states. A worker's claim
-- takes a suspect alone, if it is first, or skips suspects; a claim of dead letters skips those that rest. `only_suspects`:
-- whether no other rows are there.
local rows, ids = capacity > 0 and redis.call('ZRANGE', source, 0, capacity) or {}, {} -- and one more, if it exists
local byte, sub, more = string.byte, string.sub, #rows > capacity
rows[capacity + 1] = nil
for n, row in ipairs(rows) do
  ids[n] = sub(row, byte(row) < 16 and 9 or 3) -- as lib/id_of
end
local texts = #ids > 0 and redis.call('HMGET', states, unpack(ids)) or {}
local mark = part ~= 'live' and ' rest=' or suspects ~= 'all' and lapsed_before
local marked, long = false, #ids > 250 -- long: read records some at a time (lib/read_records)
for _, text in ipairs(texts) do
  if text then
    marked, long = marked or mark and text:find(mark), long or text:find(' head=', 1, true)
  end
end
if marked then
  -- The rows that a claim may take, at most `most`, with their ids and states, if it met suspects or resting dead letters.
  local function past_others(source, most, reply)
    if part == 'live' then
      local NEEDED = { rq = 'multiplier', artemis = 'max_delay', activemq = 'redelivery_delay' } -- in addition to those that all need

      local function is_number(value)
        return type(value) == 'number' and value == value -- NaN is not itself
      end

      local function read_policy(text)
        local found = read_json(text).redelivery
        if type(found) ~= 'table' or not NEEDED[found.arithmetic] then
          return nil, type(found) == 'table' and type(found.arithmetic) == 'string'
        end
        local sound = is_number(found.initial_delay) and is_number(found.multiplier)
        sound = sound and is_number(found.collision_avoidance) and is_number(found[NEEDED[found.arithmetic]])
        for _, wait in ipairs(type(found.delays) == 'table' and found.delays or {}) do
          sound = sound and is_number(wait)
        end
        return sound and found or nil
      end
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
      -- Whether this many charged failures are more than the policy in Redis allows now. If that policy cannot be read, there is
      -- no limit here: the next failure is judged by the default policy.
      local stands = read_policy(setting('redelivery') or default_policy)
      local allowed = stands and stands.max_redeliveries
      local function is_spent(charged)
        return type(allowed) == 'number' and charged > allowed
      end
      local function id_of(member)
        return member:sub(member:byte(1) < 16 and 9 or 3)
      end
      -- The rows of `source` that a worker's claim may take, at most `most`, with their ids and states. A suspect, a message that
      -- lapsed before, is taken alone, if it is first and the claim may take it; otherwise the claim skips suspects, within 1,000
      -- more rows (I9). Only states are read, since records may be large. A spent message is not a suspect: it is not handed out,
      -- but buried (I6).
      local PAST, PAGE = 1000, 100

      local function past_suspects(source, most)
        local found, named, stated = {}, {}, {}
        for first = 0, most + PAST, PAGE do
          local rows, ids = redis.call('ZRANGE', source, first, math.min(first + PAGE, most + PAST) - 1), {}
          for n, row in ipairs(rows) do
            ids[n] = id_of(row)
          end
          for n, text in ipairs(#ids > 0 and redis.call('HMGET', states, unpack(ids)) or {}) do
            local charged = text and tonumber(text:match(lapsed_before))
            local suspect = charged and not is_spent(charged)
            local alone = suspect and suspects == 'alone'
            if not suspect or alone and #found == 0 then
              found[#found + 1], named[#named + 1], stated[#stated + 1] = rows[n], ids[n], text
            end
            if alone or #found == most then
              return found, named, stated
            end
          end
          if #rows < PAGE then
            break
          end
        end
        return found, named, stated
      end
      return past_suspects(source, most)
    end
    local function id_of(member)
      return member:sub(member:byte(1) < 16 and 9 or 3)
    end
    -- The first rows of a dead-letter or expiry queue whose messages do not rest (lib/keep), at most `most`, with their ids and
    -- states. It skips 1,000 resting ones and, if that finds none, as many from a random position, so that resting messages,
    -- however many (I9), do not block the others. If it finds none, the reply says when the first rest ends.
    local PAST, PAGE = 1000, 100

    local function past_resting(source, most, reply)
      local found, named, stated, wakes = {}, {}, {}, nil

      local function look(from, upto)
        for first = from, upto, PAGE do
          local rows, ids = redis.call('ZRANGE', source, first, math.min(first + PAGE, upto) - 1), {}
          for n, row in ipairs(rows) do
            ids[n] = id_of(row)
          end
          for n, text in ipairs(#ids > 0 and redis.call('HMGET', states, unpack(ids)) or {}) do
            local ends = tonumber(text and text:match(' rest=(%d+)') or 0)
            if ends > now then
              wakes = math.min(wakes or ends, ends)
            else
              found[#found + 1], named[#named + 1], stated[#stated + 1] = rows[n], ids[n], text
            end
            if #found == most then
              return
            end
          end
          if #rows < PAGE then
            break
          end
        end
      end

      look(0, most + PAST)
      local size = redis.call('ZCARD', source)
      if #found == 0 and size > most + PAST then
        local from = math.floor(tonumber(seed) * size)
        look(from, from + PAST)
      end
      reply[2] = #found == 0 and wakes and wakes - now or reply[2]
      return found, named, stated
    end
    return past_resting(source, most, reply)
  end
  rows, ids, texts = past_others(source, capacity, reply)
  long = true -- perhaps
end
local only_suspects = marked and #rows == 0
-- Keeps, of the rows that a claim may take, those of messages without a key, or with a seat (lib/with_seats).
local seated = true
if per_key and #rows > 0 then
  local held = redis.call('ZMSCORE', seats, unpack(ids))
  if narrowed then
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
    local function limit_of(number)
      local lane = rule.of_each and (lanes_read[number] or setting('limited')) and read_lane(number)
      return lane and tonumber(lane.limit) or rule.limit
    end
    local WHOLE = string.format('%d', 2 ^ 43) == '8796093022208' and '%d' or '%.0f' -- %d is faster, and has 32 bits on some servers

    local function digits(number)
      return string.format(WHOLE, number)
    end
    local BY_RATE = '.5'
    local function free_seats(lane)
      local score = digits(lane)
      local free = limit_of(lane) - redis.call('ZCOUNT', seats, score, score .. BY_RATE)
      if rule.interval and free > 0 then
        local function slot_of(lane)
          local at = tonumber(redis.call('ZSCORE', slots, string.format('%.0f', lane)) or nil)
          return at and at > now and at <= now + rule.interval and at or nil
        end
        free = not slot_of(lane) and redis.call('ZCOUNT', seats, score .. BY_RATE, score .. BY_RATE) == 0 and 1 or 0
      end
      return free, rule.interval and score .. BY_RATE or score
    end
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
    local MARK, FLAGS, AGAIN = '^>=%d[%d.]* ', 0x0F, 60000 -- milliseconds until it is checked again

    local function is_later(record, text)
      return text and text:find(MARK) ~= nil or record:byte(8) == FLAGS and record:find(MARK, 9) ~= nil
    end
    local EXPIRES = 0x10
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
    local HEADERS = 0x20

    local function lanes_of(record)
      local flags = record:byte(8)
      if flags and math.floor(flags / HEADERS) % 2 == 1 then
        return lanes_in(record, math.floor(flags / EXPIRES) % 2 == 1 and 15 or 9)
      end
    end
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

    local function as_head(birth, flags, expires, lane, needs)
      return {
        birth = birth, priority = math.min(flags % EXPIRES, 9), expires = expires, transient = flags >= TRANSIENT,
        lane = lane, needs = needs,
      }
    end

    local function read_record(record)
      if #record < 14 and (#record < 8 or has_expiry(record)) then
        return { birth = 0, priority = 4 }
      end
      local flags, expires = record:byte(8), has_expiry(record) and unpack_number(record, 9, 6) or nil
      local lane, needs = lanes_of(record)
      return as_head(unpack_number(record, 1, 7), flags, expires, lane, needs)
    end
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
    local BAND = 2 ^ 42

    local function score_of(priority, due)
      return (9 - priority) * BAND + due
    end

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
    local HOLDERS = 1000 -- that it reads (I9)

    local function ready_holders(first, last)
      local found = {}
      for _, id in ipairs(redis.call('ZRANGEBYSCORE', seats, first, last, 'LIMIT', 0, HOLDERS)) do
        local text = redis.call('HGET', states, id)
        local head = head_of(id, text)
        local row = head and member_of(id, head, parse_state(text, head.birth).due)
        local rank = row and redis.call('ZRANK', ready, row)
        if rank then
          found[#found + 1] = { id = id, row = row, rank = rank }
        end
      end
      return found
    end
    local function block(lane, row)
      redis.call('ZADD', scheduled, BLOCKED + lane, row)
      redis.call('ZREM', ready, row)
    end

    local function narrow_lane(lane)
      local surplus = -free_seats(lane)
      if surplus <= 0 then
        return 0, 0
      end
      local holders = ready_holders(digits(lane), digits(lane) .. BY_RATE)
      table.sort(holders, function(one, other) return one.rank > other.rank end)
      local losers = math.min(surplus, #holders)
      for n = 1, losers do
        redis.call('ZREM', seats, holders[n].id) -- first: a cut-off script may leave a free seat, never one too many
        block(lane, holders[n].row)
      end
      return losers, surplus - losers
    end

    local function narrow(held, ids)
      local seen, blocked, left = {}, 0, 0
      for _, score in ipairs(held) do
        local lane = score and score - score % 1 -- lib/BY_RATE
        if lane and lane >= 0 and not seen[lane] then -- not of a place (lib/PLACES)
          seen[lane] = true
          local losers, too_many = narrow_lane(lane)
          blocked, left = blocked + losers, left + too_many
        end
      end
      return blocked > 0 and redis.call('ZMSCORE', seats, unpack(ids)) or held, left > 0
    end
    held = narrow(held, ids)
  end
  for n, row in ipairs(rows) do
    held[n] = held[n] and (not paced or held[n] % 1 > 0) -- lib/BY_RATE
    seated = seated and (held[n] or row:byte() > 15) -- with a key, a row never has the short form (lib/order)
  end
  if not seated then
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
    local function is_closed(number)
      local lane = (lanes_read[number] or setting('gated')) and read_lane(number)
      return lane and (lane.open or lane.paused and (not lane.ends or lane.ends > now)) and true or false
    end
    local WHOLE = string.format('%d', 2 ^ 43) == '8796093022208' and '%d' or '%.0f' -- %d is faster, and has 32 bits on some servers

    local function digits(number)
      return string.format(WHOLE, number)
    end
    local function limit_of(number)
      local lane = rule.of_each and (lanes_read[number] or setting('limited')) and read_lane(number)
      return lane and tonumber(lane.limit) or rule.limit
    end
    local BY_RATE = '.5'
    local function free_seats(lane)
      local score = digits(lane)
      local free = limit_of(lane) - redis.call('ZCOUNT', seats, score, score .. BY_RATE)
      if rule.interval and free > 0 then
        local function slot_of(lane)
          local at = tonumber(redis.call('ZSCORE', slots, string.format('%.0f', lane)) or nil)
          return at and at > now and at <= now + rule.interval and at or nil
        end
        free = not slot_of(lane) and redis.call('ZCOUNT', seats, score .. BY_RATE, score .. BY_RATE) == 0 and 1 or 0
      end
      return free, rule.interval and score .. BY_RATE or score
    end
    local function seat_in(lane)
      return rule.interval and digits(lane) .. BY_RATE or digits(lane)
    end
    local function enter(id, row, lane, full)
      if rule.limit == math.huge then
        return true
      end
      local has_room = not (full and full[lane] or is_closed(lane))
      if has_room then
        local score = digits(BLOCKED + lane)
        local head = redis.call('ZRANGEBYSCORE', scheduled, score, score, 'LIMIT', 0, 1)[1]
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
    local function block(lane, row)
      redis.call('ZADD', scheduled, BLOCKED + lane, row)
      redis.call('ZREM', ready, row)
    end
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
    local MARK, FLAGS, AGAIN = '^>=%d[%d.]* ', 0x0F, 60000 -- milliseconds until it is checked again

    local function is_later(record, text)
      return text and text:find(MARK) ~= nil or record:byte(8) == FLAGS and record:find(MARK, 9) ~= nil
    end
    local EXPIRES = 0x10
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
    local HEADERS = 0x20

    local function lanes_of(record)
      local flags = record:byte(8)
      if flags and math.floor(flags / HEADERS) % 2 == 1 then
        return lanes_in(record, math.floor(flags / EXPIRES) % 2 == 1 and 15 or 9)
      end
    end
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

    local function as_head(birth, flags, expires, lane, needs)
      return {
        birth = birth, priority = math.min(flags % EXPIRES, 9), expires = expires, transient = flags >= TRANSIENT,
        lane = lane, needs = needs,
      }
    end

    local function read_record(record)
      if #record < 14 and (#record < 8 or has_expiry(record)) then
        return { birth = 0, priority = 4 }
      end
      local flags, expires = record:byte(8), has_expiry(record) and unpack_number(record, 9, 6) or nil
      local lane, needs = lanes_of(record)
      return as_head(unpack_number(record, 1, 7), flags, expires, lane, needs)
    end
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
    local BAND = 2 ^ 42

    local function score_of(priority, due)
      return (9 - priority) * BAND + due
    end

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
    local HOLDERS = 1000 -- that it reads (I9)

    local function ready_holders(first, last)
      local found = {}
      for _, id in ipairs(redis.call('ZRANGEBYSCORE', seats, first, last, 'LIMIT', 0, HOLDERS)) do
        local text = redis.call('HGET', states, id)
        local head = head_of(id, text)
        local row = head and member_of(id, head, parse_state(text, head.birth).due)
        local rank = row and redis.call('ZRANK', ready, row)
        if rank then
          found[#found + 1] = { id = id, row = row, rank = rank }
        end
      end
      return found
    end
    -- Whether a ready message takes over a seat: of the holders that are still ready and behind it, the last one loses its seat, so
    -- that no holder passes another. It passes no blocked message either; if it takes over none, its row may be in both indexes.
    --   displaced: the ids of those that have lost their seats
    local function takes_over(id, row, lane, displaced)
      if free_seats(lane) < 0 then -- a limit is lower than before: the lane gives no seat
        return false
      end
      local score = digits(BLOCKED + lane)
      redis.call('ZADD', scheduled, score, row) -- so that Redis compares it with those that are blocked
      if redis.call('ZRANGEBYSCORE', scheduled, score, score, 'LIMIT', 0, 1)[1] ~= row then
        return false
      end
      local furthest, loser = redis.call('ZRANK', ready, row) or math.huge, nil
      for _, holder in ipairs(ready_holders(seat_in(lane), seat_in(lane))) do
        if holder.rank > furthest then
          furthest, loser = holder.rank, holder
        end
      end
      if not loser then
        return false
      end
      redis.call('ZREM', seats, loser.id) -- first: a cut-off script may leave a free seat, never one too many
      redis.call('ZADD', seats, seat_in(lane), id)
      block(lane, loser.row)
      redis.call('ZREM', scheduled, row)
      displaced[loser.id] = true
      return true
    end
    local function waiting_lane(id, row, text)
      if text and not text:find('^%a+/?%a* %-') then
        return nil
      end
      local head = head_of(id, text)
      if not (head and head.lane) then
        return nil
      end
      return head.lane, member_of(id, head, parse_state(text, head.birth).due) == row
    end
    local function id_of(member)
      return member:sub(member:byte(1) < 16 and 9 or 3)
    end
    -- Of the rows that a claim may take, with their ids and states, those of messages that have no key, or a seat. A message
    -- with a key but no seat gets one, or is blocked: keys had no rule when it became ready, or another program made it ready.
    -- If messages that were sent later hold the seats and are still ready, it takes over the seat of one, which is blocked. If any
    -- was blocked, it reads a hundred rows more, so that few claims are enough.
    --   held: for each its lane, if it has a seat
    local AHEAD = 100 -- rows (I9)

    -- Blocks a message that has no seat and gets none; whether it did.
    local function must_wait(row, id, text, displaced)
      local lane, is_own = waiting_lane(id, row, text)
      if not lane or is_own and (enter(id, row, lane) or takes_over(id, row, lane, displaced)) then
        return false
      end
      block(lane, row) -- lib/let_in drops a row that is not its message's own
      if rule.interval then
        redis.call('ZREM', seats, id) -- it was ready before keys had a rate
      end
      return true
    end

    local function with_seats(held, rows, ids, texts)
      local blocked, displaced, any = {}, {}, false
      for n, row in ipairs(rows) do
        blocked[n] = not held[n] and must_wait(row, ids[n], texts[n], displaced)
        any = any or blocked[n]
      end
      local kept, names, lines = {}, {}, {}
      for n, id in ipairs(ids) do -- an id has a second row, nearer the front, if a script was cut off
        if not blocked[n] and not displaced[id] then
          kept[#kept + 1], names[#names + 1], lines[#lines + 1] = rows[n], id, texts[n]
        end
      end
      for _, row in ipairs(any and redis.call('ZRANGE', ready, #kept, #kept + AHEAD - 1) or {}) do
        local id = id_of(row)
        if row:byte() < 16 and not redis.call('ZSCORE', seats, id) then -- a key has the long form (lib/order)
          must_wait(row, id, redis.call('HGET', states, id), displaced)
        end
      end
      return kept, names, lines
    end
    rows, ids, texts = with_seats(held, rows, ids, texts)
  end
end
-- Keeps, of the rows that a claim may take, those that no closed lane stops (lib/past_gates).
local passed = true
if gated and #rows > 0 then
  local PASS = '\1'
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
  local MARK, FLAGS, AGAIN = '^>=%d[%d.]* ', 0x0F, 60000 -- milliseconds until it is checked again

  local function is_later(record, text)
    return text and text:find(MARK) ~= nil or record:byte(8) == FLAGS and record:find(MARK, 9) ~= nil
  end
  local EXPIRES = 0x10
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
  local HEADERS = 0x20

  local function lanes_of(record)
    local flags = record:byte(8)
    if flags and math.floor(flags / HEADERS) % 2 == 1 then
      return lanes_in(record, math.floor(flags / EXPIRES) % 2 == 1 and 15 or 9)
    end
  end
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

  local function as_head(birth, flags, expires, lane, needs)
    return {
      birth = birth, priority = math.min(flags % EXPIRES, 9), expires = expires, transient = flags >= TRANSIENT,
      lane = lane, needs = needs,
    }
  end

  local function read_record(record)
    if #record < 14 and (#record < 8 or has_expiry(record)) then
      return { birth = 0, priority = 4 }
    end
    local flags, expires = record:byte(8), has_expiry(record) and unpack_number(record, 9, 6) or nil
    local lane, needs = lanes_of(record)
    return as_head(unpack_number(record, 1, 7), flags, expires, lane, needs)
  end
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
  local function id_of(member)
    return member:sub(member:byte(1) < 16 and 9 or 3)
  end
  local function is_closed(number)
    local lane = (lanes_read[number] or setting('gated')) and read_lane(number)
    return lane and (lane.open or lane.paused and (not lane.ends or lane.ends > now)) and true or false
  end
  local function end_passes(ids)
    local passes = {}
    for n, id in ipairs(ids) do
      passes[n] = PASS .. id
    end
    redis.call('ZREM', seats, unpack(passes))
    redis.call('ZREM', gates, unpack(passes))
  end
  -- Of the rows that a claim may take, with their ids and states, those that it may hand out. The others are parked: a
  -- message whose dependency is closed in the lane of the dependency, one whose key is paused in the lane of the key. With
  -- ordered keys a message that waits for its dependency keeps the seat of its key, so no message overtakes it; otherwise it
  -- gives the seat back. If any was parked, it reads a hundred rows more, so that few claims are enough.
  local AHEAD = 100 -- rows (I9)

  -- The closed lane in which a message must wait, and whether it is the lane of its dependency; nil: none.
  local function closed_lane(id, row, text)
    if row:byte() > 15 or text and not text:find('^%a+/?%a* %-') then -- in no lane (lib/order), or it is leased
      return nil
    end
    local head = head_of(id, text)
    if head and head.needs and is_closed(head.needs) and not redis.call('ZSCORE', seats, PASS .. id) then
      return head.needs, true
    end
    return head and head.lane and is_closed(head.lane) and head.lane or nil, false
  end

  -- Parks a message, if it must wait; whether it must.
  local function parked(row, id, text, leaving)
    local lane, of_dependency = closed_lane(id, row, text)
    if not lane then
      return false
    end
    redis.call('ZADD', scheduled, BLOCKED + lane, row)
    redis.call('ZREM', ready, row)
    if not of_dependency then
      end_passes({ id })
    end
    if not (of_dependency and rule.in_order) then
      leaving[#leaving + 1] = id
    end
    return true
  end

  local function past_gates(rows, ids, texts)
    local kept, names, lines, leaving = {}, {}, {}, {}
    for n, row in ipairs(rows) do
      if not parked(row, ids[n], texts[n], leaving) then
        kept[#kept + 1], names[#names + 1], lines[#lines + 1] = row, ids[n], texts[n]
      end
    end
    for _, row in ipairs(#kept < #rows and redis.call('ZRANGE', ready, #kept, #kept + AHEAD - 1) or {}) do
      parked(row, id_of(row), redis.call('HGET', states, id_of(row)), leaving)
    end
    if #leaving > 0 and rule.limit < math.huge then
      vacate(leaving)
    end
    return kept, names, lines
  end
  local before = #rows
  rows, ids, texts = past_gates(rows, ids, texts)
  passed = #rows == before
end
-- Leases the first messages of its index to the token, and adds them to the reply: `chosen` are their ids. Statements, not
-- functions, since every claim runs them: a function costs Redis as much as a command, and more for each outer name that it
-- uses. Functions that are rarely needed are defined when they are needed.
local NOT_FRESH = 4096 -- bytes that a message that is not fresh counts for, since it takes as long
local most = 524288 -- bytes that it leases, or one message (I9)
local records, read, spent = {}, 0, 0
local chosen, seen, leased, taken, mortal, not_fresh = {}, {}, {}, {}, nil, nil
local size, ends, leaves = 0, #reply, 0 -- the lengths of chosen, reply and taken: # would search for them
-- The state of a first delivery. Over 64 bytes: Redis would keep a few shorter states in a list, which it searches.
local fresh = 'live +' .. token .. ' 0000000000000 1 0 0 0 0 0 0000000000000'
for place = 1, #ids do
  if spent > most then -- the rest stays
    break
  elseif place > read and not long then
    records, read = redis.call('HMGET', messages, unpack(ids)), #ids
  elseif place > read then
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
    records, read = read_records(records, ids, texts, place, most - spent)
  end
  local id, text = ids[place], texts[place]
  local record = not seen[id] and records[place] -- a message whose send was cut off and repeated has two rows
  local line = record and fresh
  local touched = record and (text or (record:byte(8) or 0) % 32 > 9) -- or its flags hold more than a priority
  if touched then
    not_fresh = not_fresh or (function()
      local MARK, FLAGS, AGAIN = '^>=%d[%d.]* ', 0x0F, 60000 -- milliseconds until it is checked again

      local function is_later(record, text)
        return text and text:find(MARK) ~= nil or record:byte(8) == FLAGS and record:find(MARK, 9) ~= nil
      end
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
      local EXPIRES = 0x10
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
      local HEADERS = 0x20

      local function lanes_of(record)
        local flags = record:byte(8)
        if flags and math.floor(flags / HEADERS) % 2 == 1 then
          return lanes_in(record, math.floor(flags / EXPIRES) % 2 == 1 and 15 or 9)
        end
      end
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

      local function as_head(birth, flags, expires, lane, needs)
        return {
          birth = birth, priority = math.min(flags % EXPIRES, 9), expires = expires, transient = flags >= TRANSIENT,
          lane = lane, needs = needs,
        }
      end

      local function read_record(record)
        if #record < 14 and (#record < 8 or has_expiry(record)) then
          return { birth = 0, priority = 4 }
        end
        local flags, expires = record:byte(8), has_expiry(record) and unpack_number(record, 9, 6) or nil
        local lane, needs = lanes_of(record)
        return as_head(unpack_number(record, 1, 7), flags, expires, lane, needs)
      end
      local function head_in(record, text)
        local birth, flags, expires, lane, needs = stated_head(text)
        if birth then
          return as_head(birth, flags, expires > 0 and expires or nil, lane, needs)
        end
        return read_record(record)
      end
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
      local BAND = 2 ^ 42

      local function score_of(priority, due)
        return (9 - priority) * BAND + due
      end

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
      local function read_strategy()
        return read_json(setting('dead_letter'))
      end
      local in_group, seat_or_block, give_back

      local function put(id, state, head, waits, rest, arrive)
        local member, score = member_of(id, head, state.due), type(waits) == 'number' and waits or state.due
        local index = state.part == 'dead' and dead or state.part == 'expired' and expired or scheduled
        if state.part == 'live' and not waits then
          index, score = ready, score_of(head.priority, state.due)
        end
        local in_lane = head.lane and setting('per_key')
        if in_lane then
          if not give_back then
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
            local function keeps_seat(state, waits)
              if state.part ~= 'live' then
                return rule.holds and state.part == 'dead' and state.reason ~= 'expired'
              end
              return not waits or rule.in_order
            end
            local function is_closed(number)
              local lane = (lanes_read[number] or setting('gated')) and read_lane(number)
              return lane and (lane.open or lane.paused and (not lane.ends or lane.ends > now)) and true or false
            end
            local WHOLE = string.format('%d', 2 ^ 43) == '8796093022208' and '%d' or '%.0f' -- %d is faster, and has 32 bits on some servers

            local function digits(number)
              return string.format(WHOLE, number)
            end
            local function limit_of(number)
              local lane = rule.of_each and (lanes_read[number] or setting('limited')) and read_lane(number)
              return lane and tonumber(lane.limit) or rule.limit
            end
            local BY_RATE = '.5'
            local function free_seats(lane)
              local score = digits(lane)
              local free = limit_of(lane) - redis.call('ZCOUNT', seats, score, score .. BY_RATE)
              if rule.interval and free > 0 then
                local function slot_of(lane)
                  local at = tonumber(redis.call('ZSCORE', slots, string.format('%.0f', lane)) or nil)
                  return at and at > now and at <= now + rule.interval and at or nil
                end
                free = not slot_of(lane) and redis.call('ZCOUNT', seats, score .. BY_RATE, score .. BY_RATE) == 0 and 1 or 0
              end
              return free, rule.interval and score .. BY_RATE or score
            end
            local function seat_in(lane)
              return rule.interval and digits(lane) .. BY_RATE or digits(lane)
            end
            local function enter(id, row, lane, full)
              if rule.limit == math.huge then
                return true
              end
              local has_room = not (full and full[lane] or is_closed(lane))
              if has_room then
                local score = digits(BLOCKED + lane)
                local head = redis.call('ZRANGEBYSCORE', scheduled, score, score, 'LIMIT', 0, 1)[1]
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

            local function seated_or_blocked(id, row, lane, score)
              due_first({ id })
              local may, slot = enter(id, row, lane)
              if may then
                return ready, score
              end
              return scheduled, slot or BLOCKED + lane
            end

            local function given_back(id, state, waits)
              if not keeps_seat(state, waits) then
                vacate({ id })
              end
            end
            seat_or_block, give_back = seated_or_blocked, given_back
          end
          if index == ready then
            index, score = seat_or_block(id, member, head.lane, score)
          end
        end
        redis.call('ZADD', index, score, member)
        local expires = state.part == 'live' and expiry_of(head, state)
        if expires then
          redis.call('ZADD', expiring, expires, id)
        end
        state.mark = '-'
        local died_again = state.part ~= 'live' and state.more:match(' redrive=([^/ ]+)/') -- see lib/bring_back
        if died_again then
          state.more = state.more:gsub(' redrive=%S*', '')
        end
        if rest or state.more:find(' rest=') then
          state.more = state.more:gsub(' rest=%d+', '') .. (rest and ' rest=' .. rest or '')
        end
        if state.part == 'dead' and not state.more:find(' group=', 1, true) then
          local FAILURES = { nacked = true, lapsed = true, passed_on = true, poisoned = true, dead_lettered = true }

          local function last_failure(story)
            local first, from, to = 1, 1, 0
            while first <= #story do
              local last = (story:find('\n', first, true) or #story + 1) - 1
              if FAILURES[story:match('^[%a_]*', first)] then
                from, to = first, last
              end
              first = last + 2
            end
            return story:sub(from, to)
          end
          local function group_of(id, state)
            local expired = state.reason == 'expired'
            local failure = last_failure(redis.call('HGET', history, id) or '')
            if expired and tonumber(failure:match('^%S*\t(%d+)') or nil) ~= state.due then
              failure = '' -- it expired without a failure
            end
            local group = failure:match('"fingerprint":"(%w*)"') or '' -- in a text the quotes would be escaped
            return group == '' and expired and 'expired' or group:sub(1, 12)
          end
          state.more = state.more .. ' group=' .. group_of(id, state)
        end
        redis.call('HSET', states, id, format_state(state))
        if arrive then
          arrive()
        end
        if state.part == 'dead' then -- last, so that each row of `groups` belongs to a dead letter
          in_group = in_group or (function()
            local function group_row(group, died, member)
              return string.format('%-12s', group) .. pack_number(died, 6) .. member
            end
            local function row_in_groups(state, member)
              return group_row(state.more:match(' group=(%S*)') or '', state.due, member)
            end
            return row_in_groups
          end)()
          redis.call('ZADD', groups, 0, in_group(state, member))
        end
        if died_again then
          local function count_redriven(job, what)
            if redis.call('HEXISTS', redrives, job .. ' ' .. what) == 1 then
              redis.call('HINCRBY', redrives, job .. ' ' .. what, 1)
            end
          end
          count_redriven(died_again, 'died')
        end
        if head.needs and setting('gated') then
          local PASS = '\1'
          local function end_passes(ids)
            local passes = {}
            for n, id in ipairs(ids) do
              passes[n] = PASS .. id
            end
            redis.call('ZREM', seats, unpack(passes))
            redis.call('ZREM', gates, unpack(passes))
          end
          end_passes({ id })
        end
        if in_lane then
          give_back(id, state, waits or index == scheduled)
        end
        return index, member
      end
      local function untried(state)
        return tonumber(state.more:match(' untried=(%d+)') or 0)
      end

      local function attempts(state)
        return math.max(state.deliveries - untried(state), 0)
      end
      local ENDS = {
        dead = true, expired = true, discarded = true, purged = true, cancelled = true, moved = true, undone = true, redriven = true,
      }
      local names = {} -- of consumers, by their JSON
      local function outcome(event, id, head, state, delay, detail)
        local birth = string.format('%.0f', head.birth)
        if ENDS[event] and state.more:find(' result=', 1, true) then
          local function keep_results(ended, ends, births)
            local values = redis.call('HMGET', settings, 'results', 'results_bytes')
            local kept_for, most_bytes = values[1], values[2]
            local function span(text)
              local value = tonumber(text and text:match('^%d+$') or nil)
              return value and value > 0 and value <= 315360000000 and value or nil -- ten years
            end
            local RESULTS_KEPT = 3600000
            local RESULT_EXTRA = 200
            local BORN = '\1'
            local BYTES = 67108864 -- of all results
            local lasts, limit = span(kept_for) or RESULTS_KEPT, tonumber((most_bytes or ''):match('^%d+$') or nil) or BYTES
            local names, starts, born, sizes, wanted = { '' }, {}, {}, {}, 0 -- under the empty id: the bytes of all
            for n, id in ipairs(ended) do
              names[2 * n], names[2 * n + 1] = id, id .. BORN
              starts[n] = ends[n] and ends[n]:match('^%a+ %d+ ')
              born[n] = ends[n] and starts[n] .. births[n]
              sizes[n] = ends[n] and 4 * #id + 2 * #BORN + #ends[n] + #born[n] + 2 * RESULT_EXTRA or 0
              wanted = wanted + (sizes[n] <= limit and sizes[n] or 0)
            end
            local before = redis.call('HMGET', results, unpack(names))
            local over = redis.call('ZRANGEBYSCORE', result_times, '-inf', now - lasts, 'LIMIT', 0, 4 * #ended)
            for at = 2, #names do
              over[#over + 1] = before[at] and names[at] or nil
            end
            local total, dropped = tonumber(before[1] or nil) or 0, 0
            if over[1] or total + wanted > limit then
              local TOGETHER = 1000 -- rows in one command
              local function forget_results(rows, enough)
                local freed, gone, outcomes = 0, {}, 0
                for _, row in ipairs(rows) do
                  if freed >= enough then
                    break
                  end
                  local is_birth = row:sub(-1) == BORN
                  outcomes = outcomes + (is_birth and 0 or 1)
                  for _, name in ipairs({ row, not is_birth and row .. BORN or nil }) do
                    local length = gone[name] and 0 or redis.call('HSTRLEN', results, name)
                    freed = freed + (length > 0 and 2 * #name + length + RESULT_EXTRA or 0)
                    gone[#gone + 1], gone[name] = name, true
                  end
                end
                for at = 1, #gone, TOGETHER do
                  local stop = math.min(at + TOGETHER - 1, #gone)
                  redis.call('HDEL', results, unpack(gone, at, stop))
                  redis.call('ZREM', result_times, unpack(gone, at, stop))
                end
                return freed, outcomes
              end
              local MOST, MOST_BYTES = 4400, 33554432 -- rows that one script drops (I9): as many as half a megabyte may need
              local AT_ONCE = 100 -- rows that one command reads
              local function make_room(over, total, wanted, limit)
                total = total - forget_results(over, math.huge)
                local room, dropped, seen = math.min(total + wanted - limit, MOST_BYTES), 0, 0
                while room > 0 and seen < MOST do
                  local oldest = redis.call('ZRANGE', result_times, 0, AT_ONCE - 1)
                  if not oldest[1] then
                    return 0, dropped -- nothing is left, whatever was counted
                  end
                  local freed, gone = forget_results(oldest, room)
                  total, room, dropped, seen = total - freed, room - freed, dropped + gone, seen + #oldest
                end
                return total, dropped
              end
              total, dropped = make_room(over, total, wanted, limit)
            end
            local rows, cells, last, kept, kept_at = {}, { '', 0 }, 0, {}, string.format('%.0f', now)
            for n, id in ipairs(ended) do
              if ends[n] and total + sizes[n] <= limit then
                total, kept[n], last = total + sizes[n], true, last + 4
                rows[last - 3], rows[last - 2], rows[last - 1], rows[last] = kept_at, id, kept_at, id .. BORN
                cells[last - 1], cells[last], cells[last + 1], cells[last + 2] = id, ends[n], id .. BORN, born[n]
              elseif ends[n] then
                dropped = dropped + 1
              end
            end
            cells[2] = string.format('%.0f', math.max(0, total))
            local written = last == 0 or type(redis.pcall('ZADD', result_times, unpack(rows))) == 'number'
            if written and (last > 0 or before[1]) then
              written = type(redis.pcall('HSET', results, unpack(cells))) == 'number'
            end
            redis.call('PEXPIRE', results, lasts)
            redis.call('PEXPIRE', result_times, lasts)
            if dropped > 0 then
              redis.pcall('HINCRBY', counters, 'results_dropped', dropped)
            end
            for n, id in ipairs(ended) do
              if ends[n] then -- if the user must not publish, a waiting caller finds it within a second
                local is_kept = written and kept[n] -- in the place of the time the birth: version 0.1.0 does not read the time here
                local word, rest = is_kept and starts[n]:match('^%a+') or 'unkept', is_kept and ends[n]:sub(#starts[n] + 1) or ''
                redis.pcall('PUBLISH', results .. ':' .. id, word .. ' ' .. births[n] .. ' ' .. rest)
              end
            end
            return kept
          end
          local word = event == 'undone' and state.part or event
          local cause = detail and detail.error and detail.error:match('^[^\t]*') or ''
          local rest = string.format('%.0f', now) .. ' ' .. state.reason .. '\t' .. cause
          keep_results({ id }, { event ~= 'redriven' and word .. ' ' .. rest }, { birth })
        end
        local kept = setting('outcomes')
        if not kept then
          return
        end
        detail = detail or {}
        local age = math.max(now - math.floor(head.birth / 4096), 0)
        local consumer, failure = detail.consumer or '""', detail.error and read_json(detail.error:match('^[^\t]*')) or {}
        names[consumer] = names[consumer] or read_json('[' .. consumer .. ']')[1] or ''
        redis.pcall(
          'XADD', outcomes, 'MAXLEN', '~', kept, '*', 'id', id, 'event', event, 'attempt', attempts(state),
          'age', string.format('%.0f', age), 'delay', string.format('%.0f', delay), 'consumer', names[consumer],
          'error', failure.type or '', 'fingerprint', failure.fingerprint or '',
          'reason', state.reason, 'cause', detail.cause or '', 'birth', birth
        )
      end
      local function taken_up(state)
        state.more = state.more:gsub(' passed_on=%S*', ''):gsub(' uncharged=%S*', '')
      end
      local strategy

      local function bury(id, state, head, part, reason, detail)
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
        taken_up(state)
        if fate == 'discard' then
          local rule_of_keys, has_gates = setting('per_key'), setting('gated')

          local function drop(ids)
            local once_gone, per_key, gated = nil, rule_of_keys, has_gates
            local gone = #ids
            redis.call('HDEL', messages, unpack(ids)) -- from here on they are gone
            if once_gone then
              once_gone(ids)
            end
            redis.call('HDEL', history, unpack(ids))
            redis.call('HDEL', states, unpack(ids)) -- last: by the state a sweep sees that a script was cut off
            if gated then
              local PASS = '\1'
              local function end_passes(ids)
                local passes = {}
                for n, id in ipairs(ids) do
                  passes[n] = PASS .. id
                end
                redis.call('ZREM', seats, unpack(passes))
                redis.call('ZREM', gates, unpack(passes))
              end
              end_passes(ids)
            end
            if per_key then -- after the states: lib/tend finds the seat of a message that is gone
              vacate(ids)
            end
            return gone
          end
          redis.call('HINCRBY', counters, 'discarded', drop({ id }))
          local job = state.more:match(' redrive=([^/ ]+)/') -- otherwise lib/put counts it
          if job then
            local function count_redriven(job, what)
              if redis.call('HEXISTS', redrives, job .. ' ' .. what) == 1 then
                redis.call('HINCRBY', redrives, job .. ' ' .. what, 1)
              end
            end
            count_redriven(job, 'died')
          end
        else
          state.part, state.due = fate, now
          put(id, state, head)
        end
        outcome(reason == 'expired' and 'expired' or 'dead', id, head, state, 0, detail)
        if fate == 'discard' then
          outcome('discarded', id, head, state, 0, detail)
          return 'discarded'
        end
        return fate
      end
      -- The state line of a leased message that is not fresh: it was delivered, delayed or moved before, or has a time to live.
      -- nil if the row of the index is stale (a script was cut off), or if the message is spent or expired, and is buried;
      -- 'later' if it is of a later form, and its row is put off.
      local spent
      local function not_fresh_line(source, row, id, record, stated)
        if is_later(record, stated) then
          -- Puts the row of a message of a later form behind the others: a ready one waits for a while in `scheduled`, a dead or
          -- expired one goes to the end of its index; a scheduled one stays, or it would be due at another time.
          local function put_off(index, row)
            if index == ready then
              redis.call('ZADD', scheduled, now + AGAIN, row)
              redis.call('ZREM', ready, row)
              redis.call('HINCRBY', counters, 'put_off', 1)
            elseif index ~= scheduled then
              redis.call('ZADD', index, now, row)
            end
          end
          put_off(source, row)
          return 'later'
        end
        local head = head_in(record, stated)
        local state = parse_state(stated, head.birth)
        local as_stated = state.part == part and state.due <= now and member_of(id, head, state.due) == row
        if state.mark == '+' and not redis.call('ZSCORE', leases, state.token) then
          state.mark = '-' -- another program wrote that: no consumer holds it
        end
        if state.mark == '+' or not as_stated and left_over(source, row, id, state, head) then
          return nil
        end
        state.part = part
        if part == 'live' and state.charged > 0 then -- the limit may have been lowered since it failed (I6)
          spent = spent or (function()
            local NEEDED = { rq = 'multiplier', artemis = 'max_delay', activemq = 'redelivery_delay' } -- in addition to those that all need

            local function is_number(value)
              return type(value) == 'number' and value == value -- NaN is not itself
            end

            local function read_policy(text)
              local found = read_json(text).redelivery
              if type(found) ~= 'table' or not NEEDED[found.arithmetic] then
                return nil, type(found) == 'table' and type(found.arithmetic) == 'string'
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
            local function is_spent(charged)
              return type(allowed) == 'number' and charged > allowed
            end
            return is_spent
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
        if part == 'dead' then
          local function group_row(group, died, member)
            return string.format('%-12s', group) .. pack_number(died, 6) .. member
          end
          local function row_in_groups(state, member)
            return group_row(state.more:match(' group=(%S*)') or '', state.due, member)
          end
          redis.call('ZREM', groups, row_in_groups(state, row))
        end
        state.deliveries, state.mark, state.token = state.deliveries + 1, '+', token
        return format_state(state)
      end
      return not_fresh_line
    end)()
    line = not_fresh(source, rows[place], id, record, text)
    most = most - NOT_FRESH
  end
  if line ~= 'later' then -- otherwise the row stays
    taken[leaves + 1], leaves = rows[place], leaves + 1
    if touched then
      mortal = mortal or {}
      mortal[#mortal + 1] = id
    end
    if not records[place] then -- left behind by a send or a purge that was cut off
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
      local rule_of_keys, has_gates = setting('per_key'), setting('gated')

      local function drop(ids)
        local once_gone, per_key, gated = nil, rule_of_keys, has_gates
        local gone = #ids
        redis.call('HDEL', messages, unpack(ids)) -- from here on they are gone
        if once_gone then
          once_gone(ids)
        end
        redis.call('HDEL', history, unpack(ids))
        redis.call('HDEL', states, unpack(ids)) -- last: by the state a sweep sees that a script was cut off
        if gated then
          local PASS = '\1'
          local function end_passes(ids)
            local passes = {}
            for n, id in ipairs(ids) do
              passes[n] = PASS .. id
            end
            redis.call('ZREM', seats, unpack(passes))
            redis.call('ZREM', gates, unpack(passes))
          end
          end_passes(ids)
        end
        if per_key then -- after the states: lib/tend finds the seat of a message that is gone
          vacate(ids)
        end
        return gone
      end
      drop({ id })
    elseif line then
      size = size + 1
      chosen[size], seen[id], leased[2 * size - 1], leased[2 * size] = id, true, id, line
      local story = text and redis.call('HGET', history, id) or ''
      spent = spent + #record + #story
      if answer == 'rows' then
        reply[ends + 1], reply[ends + 2], reply[ends + 3], reply[ends + 4] = id, record, line, story
        ends = ends + 4
      end
    end
  end
end
if #chosen > 0 then
  if answer == 'count' then
    reply[3], reply[4] = #chosen, spent
  end
  redis.call('ZADD', leases, now + lease, token)
  local kind = answer == 'count' and '\tbatch' or suspects ~= 'all' and '\tworker' or '' -- the sweep reads it
  redis.call('HSET', claims, token, consumer .. kind .. '\n' .. table.concat(chosen, '\n'), token .. ':held', #chosen)
  redis.call('HSET', states, unpack(leased)) -- from here on they are leased
end
if #taken > 0 then
  redis.call('ZREM', source, unpack(taken))
  if mortal then
    redis.call('ZREM', expiring, unpack(mortal))
  end
end
-- After a claim has taken messages of a queue with a rule for keys: takes the slots and gives back the seats of those that
-- it hands out (lib/handed_out); `unwatched`: no client has set its alarm for a slot. `let_in_since`: whether any message
-- is ready now, which the claim may not have read, since some were let in.
local let_in_since, unwatched = per_key and capacity > 0, false
if let_in_since then
  if (paced or per_key:find('^fair')) and #chosen > 0 then
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
    -- For messages that are handed out if lanes take turns, or keys have a rate: gives back their seats, takes their slots.
    -- Returns whether there is a slot for which no client has set its alarm.
    local function handed_out(ids)
      local slot
      if rule.interval then -- before the seats, so that no message is let in
        local KEPT = 86400000 -- milliseconds for which slots stay that no claim forgets (lib/pass_slots)

        local function take_slots(ids)
          local next_at, taken, given = now + rule.interval, {}, {}
          for n, seat in ipairs(redis.call('ZMSCORE', seats, unpack(ids))) do
            if seat then
              local lane = string.format('%.0f', math.floor(tonumber(seat)))
              taken[#taken + 1], taken[#taken + 2] = next_at, lane
              given[#given + 1], given[#given + 2] = lane, ids[n]
            end
          end
          if #taken > 0 then
            redis.call('ZADD', slots, unpack(taken))
            redis.call('PEXPIRE', slots, math.ceil(rule.interval) + KEPT)
            redis.call('ZADD', seats, unpack(given)) -- it was let in by the rate, and no longer counts as ready
          end
          return next_at
        end
        slot = take_slots(ids)
      end
      if rule.in_turn then
        vacate(ids)
      end
      local alarm_at = slot and tonumber(redis.call('GET', alarm) or nil)
      return slot and not (alarm_at and alarm_at <= slot) or false
    end
    unwatched = handed_out(chosen)
  end
  let_in_since = redis.call('ZCARD', ready) > 0
end
if by_rate and #chosen > 0 then
  -- Records messages that were handed out by a queue's rate (lib/pace), or gives tokens back: a number below 0.
  local function spend(by_rate, count)
    redis.call('HSET', counters, 'rate_until', string.format('%.17g', by_rate.from + count * by_rate.interval))
  end
  spend(by_rate, #chosen)
end
if part == 'live' then
  if more or let_in_since or (marked or not seated or not passed or #taken < #rows) and redis.call('ZCARD', ready) > 0 then
    local function wake_one()
      if redis.call('LLEN', wake) == 0 then
        redis.call('LPUSH', wake, 1)
        redis.call('PEXPIRE', wake, 5000) -- a client claims before it waits, so the token may expire; none is left behind (I13)
      end
    end
    wake_one()
    reply[2] = only_suspects and -2 or 0
  else
    redis.call('DEL', wake)
    if #chosen == 0 and patience > 0 then
      -- Tells one waiting client when the next event is due: a scheduled message, a lease, a time to live, a gate, a slot, the
      -- end of a pause, one more message by the rate. The others keep sleeping; otherwise a thousand of them would wake in the
      -- same millisecond. Returns the milliseconds until then, -1 for a client that keeps sleeping.
      local function set_alarm()
        local event = resumes or by_rate and redis.call('ZCARD', ready) > 0 and by_rate.at or nil
        for _, index in ipairs({ scheduled, leases, expiring }) do
          local at = tonumber(redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')[2])
          if at and (not event or at < event) then
            event = at
          end
        end
        if gated then
          local at = tonumber(redis.call('ZRANGEBYSCORE', gates, now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2])
          event = at and math.min(event or at, at) or event
        end
        if paced and capacity > 0 then -- past slots are left to claims that may take messages
          local at = tonumber(redis.call('ZRANGE', slots, 0, 0, 'WITHSCORES')[2])
          event = at and math.min(event or math.huge, math.ceil(at)) or event
        end
        local taken = tonumber(redis.call('GET', alarm) or nil)
        -- The client that holds the alarm keeps it.
        local another = event and taken and taken > now and taken <= event and alarmed ~= '1'
        if not event or event > now + patience or another then
          return -1
        end
        local wait = math.max(event - now, 0)
        redis.call('SET', alarm, event, 'PX', wait + 1000)
        return wait
      end
      reply[2] = set_alarm()
    end
  end
  if unwatched or alarmed == '1' and (#chosen > 0 or patience == 0 or only_suspects) then -- another client must set its alarm
    local function wake_one()
      if redis.call('LLEN', wake) == 0 then
        redis.call('LPUSH', wake, 1)
        redis.call('PEXPIRE', wake, 5000) -- a client claims before it waits, so the token may expire; none is left behind (I13)
      end
    end
    redis.call('DEL', alarm)
    wake_one()
  end
end
if #chosen == 0 and capacity > 0 and (behind or #rows > 0 and part ~= 'live' and thorough == '1') then
  reply[2] = 0
end
return reply
