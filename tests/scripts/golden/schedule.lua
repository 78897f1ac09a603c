-- Writes the record of a schedule, or removes it, and sends the message of a tick with it. If the record is not the one
-- that the client read, another client was faster: then nothing is done, so each tick is sent once. Nothing is done before
-- the tick. Returns 1, or 0 if nothing was done; -1 if the queue was deleted since the client opened it.
local name, known, record = ARGV[1], ARGV[2], ARGV[3] -- known: the record that was read; both empty: no record
local at, tick, ttl, opening = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] -- at: when to check it; empty: never
local act = ARGV[8] -- as in lib/note_act; empty: a tick
-- items from ARGV[9]: id, payload
local messages, states, ready, scheduled, expiring = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local counters, settings, wake, acked_ids, schedules = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local ticks, audit, seats, lanes, results = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local result_times, slots = KEYS[16], KEYS[17]
-- The server's clock in whole milliseconds, read once per script (I11).
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
-- Whether the queue is the one that the client opened, and not deleted since. An empty `opening`: the client cannot tell.
local is_open = opening == '' or redis.call('HGET', settings, 'opening') == opening
if not is_open then
  return -1
elseif (redis.call('HGET', schedules, name) or '') ~= known or tick > now then
  return 0
end
if #ARGV > 8 then
  -- The flag of a record (lib/record) that has an expiry.
  local EXPIRES = 0x10
  -- Bytes. If a record is longer, the state of its message has the head of the record (lib/head_word).
  local LONG = 2048
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
  -- Puts one token on the list, never more. It wakes one waiting client, whose claim passes it on if messages are left. So no
  -- client polls, and a message wakes one of a thousand.
  local function wake_one()
    if redis.call('LLEN', wake) == 0 then
      redis.call('LPUSH', wake, 1)
      redis.call('PEXPIRE', wake, 5000) -- a client claims before it waits, so the token may expire; none is left behind (I13)
    end
  end
  -- Adds items to the queue, if its opening matches (empty: any). Returns the items that it already had (lib/sent).
  local function add(items, first, last, delay, ttl, opening)
    -- Checks the items to send, items[first] to items[last] (id, payload, …), against the queue and its settings. `existing`:
    -- for each id the record that the queue has, in any state; the birth of an earlier message whose ack is kept as its outcome;
    -- or true if it was acked within the dedup_window. `ended`: n → true, where another outcome of an earlier message is kept; nil:
    -- none are. `opened`: `opening` is the queue's, or empty; otherwise nothing is looked up. `all_asked`: the results of all
    -- messages are kept.
    -- Statements, as in lib/chosen, since every send runs them.
    local asked, ids = (last - first + 1) / 2, {}
    for n = 1, asked do
      ids[n] = items[first + 2 * n - 2]
    end
    local values = redis.call('HMGET', settings, 'expiry', 'paused', 'dedup_window', 'opening', 'per_key', 'results')
    local opened, paused, keys_count = opening == '' or opening == values[4], values[2] == '1', values[5]
    local all_asked = (values[6] or ''):find('^[1-9]%d*$')
    if values[1] then
      -- A duration in the queue's settings, in milliseconds; nil if the text is not one, which counts as unset.
      local function span(text)
        local value = tonumber(text and text:match('^%d+$') or nil)
        return value and value > 0 and value <= 315360000000 and value or nil -- ten years
      end
      -- The time to live of a message: the sender's, or the queue's default, within the queue's bounds. Applied once, at send. As
      -- in Artemis, a default is for messages without one, and then the bounds do not apply.
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
    local existing = opened and redis.call('HMGET', messages, unpack(ids)) or {}
    local ended
    if opened and redis.call('EXISTS', results) == 1 then
      local function span(text)
        local value = tonumber(text and text:match('^%d+$') or nil)
        return value and value > 0 and value <= 315360000000 and value or nil -- ten years
      end
      -- Milliseconds for which results are kept if the settings do not set it.
      local RESULTS_KEPT = 3600000
      -- Follows an id in `results` and `result_times`: the birth of the send whose outcome is kept under the id (lib/kept). No id has
      -- this byte, and the row of a birth comes right after that of its outcome.
      local BORN = '\1'
      -- Marks as known those of the ids whose ack is still kept as an outcome (lib/kept): `existing` gets the birth of that send, 0:
      -- unknown. Returns n → true for those whose kept outcome is another one: such an id is free.
      local function recall_results(ids, existing, kept_for)
        local since, names, ended = now - (span(kept_for) or RESULTS_KEPT), {}, {}
        for n, id in ipairs(ids) do
          names[n] = id .. BORN
        end
        for n, born in ipairs(redis.call('HMGET', results, unpack(names))) do
          local word, at, birth = (not existing[n] and born or ''):match('^(%a+) (%d+) (%d+)$')
          -- If the times differ, version 0.1.0 has dropped or replaced the outcome.
          if word and tonumber(at) > since and tonumber(redis.call('ZSCORE', result_times, ids[n]) or nil) == tonumber(at) then
            existing[n] = word == 'acked' and tonumber(birth)
            ended[n] = not existing[n]
          end
        end
        return ended
      end
      ended = recall_results(ids, existing, values[6])
    end
    if values[3] then
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
    -- Packs the new items of items[first] to items[last] (id, payload, …), and gives them births. `packed` is how many are new.
    -- An id that the queue knows, in any state or of an earlier message (lib/asked), is left as it is (I12): `known`, 1 is the
    -- first. `birth` is the next one. If a key gets no seat, the row is in `blocked`. Statements, as in lib/chosen.
    local PACKED, ABOVE, LAST = 0x20, 0x40, 2 -- the flag of fields and headers, and the next; the last field of lib/lanes_in
    local records, places, known, head, packed = {}, {}, {}, {}, 0 -- a table costs a part of a command's time
    local deadlines, seen = ttl > 0 and {}, asked > 1 and {}
    local ends, expiry = deadlines and string.format('%.0f', now + ttl), deadlines and pack_number(now + ttl, 6)
    local birth, stated, blocked, score_if_blocked, new_seats
    local due, score, lead, order -- of all messages whose births differ in the last byte alone
    if delay == 0 and keys_count then
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
      -- The score in `scheduled` of a message that waits for a seat of its lane is this and the lane. As a time: the year 2248.
      local BLOCKED = 2 ^ 43
      -- A whole number as text, for an argument of a command: Redis would print a number with up to 17 digits, which takes longer
      -- than most commands.
      local WHOLE = string.format('%d', 2 ^ 43) == '8796093022208' and '%d' or '%.0f' -- %d is faster, and has 32 bits on some servers

      local function digits(number)
        return string.format(WHOLE, number)
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
      -- Moves due messages from `scheduled` to `ready`. Only the index changes; the state stays the same. With a rule for keys, a
      -- message with a key needs a seat of its lane; otherwise it is blocked there.
      --   limit: of rows; nil: as many as a script moves before it gives a seat; more are due only if nothing claims (lib/behind)
      --   leaving: ids whose seats the script gives back, and whose rows it is about to remove: they stay; nil: none
      local MOVED = 200

      local function promote(limit, leaving)
        local rows = redis.call('ZRANGEBYSCORE', scheduled, '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit or MOVED)
        local moved, members, blocked = {}, {}, {}
        local blocks = #rows > 0 and setting('per_key') and (function()
          -- Whether claims hand out nothing of a lane (lib/read_lane), except messages that were let through its gate.
          local function is_closed(number)
            local lane = (lanes_read[number] or setting('gated')) and read_lane(number)
            return lane and (lane.open or lane.paused and (not lane.ends or lane.ends > now)) and true or false
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
      -- The score in `scheduled` of a new message with a key that gets no seat of its lane, as in lib/enter; false: it gets one,
      -- or has one since a send was cut off. `taken_seats`: lanes and ids, which are written before the rows.
      local taken_seats, rooms, somebody_waits = {}, {}, nil -- rooms: lane → free seats

      local function room_of(lane)
        if somebody_waits == nil then
          if promote() > 0 then -- one that was delayed, and is due by now, is in front of those that are sent
            wake_one()
          end
          somebody_waits = redis.call('ZCOUNT', scheduled, BLOCKED, '+inf') > 0
        end
        local score = digits(BLOCKED + lane)
        if somebody_waits and redis.call('ZCOUNT', scheduled, score, score) > 0 then
          return 0
        end
        return free_seats(lane)
      end

      local function score_in_lane(id, payload)
        local lane = lanes_in(payload, 2)
        if not lane or rule.limit == math.huge then
          return false
        end
        local room = rooms[lane] or room_of(lane)
        rooms[lane] = math.max(room - 1, 0)
        if room > 0 then
          taken_seats[#taken_seats + 1], taken_seats[#taken_seats + 2] = seat_in(lane), id
          return false
        end
        return not redis.call('ZSCORE', seats, id) and digits(BLOCKED + lane)
      end
      score_if_blocked, new_seats = score_in_lane, taken_seats
    end
    for n = 1, opened and asked or 0 do
      local id = items[first + 2 * n - 2]
      if existing[n] or seen and seen[id] then
        known[#known + 1] = n
      else
        if not birth then -- the first new item: takes as many births as may be needed
          local drawn = redis.pcall('HINCRBY', counters, 'birth', asked)
          birth = type(drawn) == 'number' and drawn - asked + 1 or 0 -- otherwise it is damaged
          if birth < now * 4096 then
            birth = now * 4096
            redis.call('HSET', counters, 'birth', string.format('%.0f', birth + asked - 1))
          end
        end
        local payload, low = items[first + 2 * n - 1], birth % 256
        local flags = payload:byte(1)
        local priority, in_lane = flags % EXPIRES, flags % ABOVE >= PACKED and (payload:byte(4) or ABOVE) <= LAST
        if low == 0 or priority ~= head.priority then
          head.birth, head.priority = birth, priority
          local born = (birth - birth % 4096) / 4096 -- a delayed message is never due then, see lib/order
          due = delay == 0 and born or now + delay ~= born and now + delay or born + 1
          score = string.format('%.0f', delay > 0 and due or score_of(priority, due)) -- Redis would print it each time
          lead, order = pack_number((birth - low) / 256, 6), order_of(head, due)
        end
        low = string.char(low)
        local row, blocked_at = order .. low .. id, nil
        if in_lane then
          row = string.char(9 - priority) .. lead .. low .. id -- as in lib/order
          blocked_at = score_if_blocked and score_if_blocked(id, payload)
        end
        -- Whether the result of a message is asked for, by its sender or the settings, or since its outcome has to replace that of an
        -- earlier message (lib/asked). Statements, as in lib/chosen.
        --   payload: as it was sent: its flags, then the length of a part whose fields are in the order of their numbers
        local asks_result = all_asked or ended and ended[n]
        if not asks_result and payload:byte(1) % 0x40 >= 0x20 then -- the flag of such a part
          local at, stop = 4, 4 + (payload:byte(2) or 0) * 256 + (payload:byte(3) or 0)
          while at < stop do
            local field, high, length = payload:byte(at, at + 2)
            asks_result = field == 3 -- rq_dlq/values/record.py
            at = field < 3 and length and at + 3 + high * 256 + length or stop
          end
        end
        if deadlines then
          payload = string.char(payload:byte(1) + EXPIRES) .. expiry .. payload:sub(2)
          deadlines[2 * packed + 1], deadlines[2 * packed + 2] = ends, id
        end
        local record, word = lead .. low .. payload, asks_result and ' result=' .. string.format('%.0f', birth) or ''
        if #record > LONG then
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
          -- The field in the state of a message whose record is long: the head of the record, and its length. So scripts need not
          -- read the body, since Redis cannot read a part of a hash's field. Empty for a short record.
          --    head=birth/flags/expiry/length[ lane=N][ needs=N]
          -- expiry 0: none; lane, needs: the lanes of its key and of its dependency (lib/lanes_in)
          local function head_word(record)
            if #record <= LONG then
              return ''
            end
            local head = read_record(record)
            local lanes = head.lane and string.format(' lane=%.0f', head.lane) or ''
            lanes = lanes .. (head.needs and string.format(' needs=%.0f', head.needs) or '')
            return string.format(' head=%.0f/%d/%.0f/%d', head.birth, record:byte(8), head.expires or 0, #record) .. lanes
          end
          word = head_word(record) .. word
        end
        if delay > 0 or word ~= '' then
          stated = stated or {}
          stated[#stated + 1], stated[#stated + 2] = id, 'live - ' .. (delay > 0 and due or 0) .. ' 0 0 0 0 0 0 0' .. word
        end
        records[2 * packed + 1], records[2 * packed + 2] = id, record
        if blocked_at then
          blocked = blocked or {}
          blocked[#blocked + 1], blocked[#blocked + 2] = blocked_at, row
        else
          places[#places + 1], places[#places + 2] = score, row
        end
        packed, birth = packed + 1, birth + 1
        if seen then seen[id] = true end
      end
    end
    -- Sends the new ones of the items: writes their rows, then their records. `sent` is how many are new; false if the queue
    -- was deleted since the client opened it: then nothing was done. `known`: the items that it already had, each with the name
    -- of its place (lib/with_places).
    local sent = opened and packed
    if packed > 0 then
      if new_seats and new_seats[1] then
        redis.call('ZADD', seats, unpack(new_seats))
      end
      if places[1] then
        redis.call('ZADD', delay > 0 and scheduled or ready, unpack(places))
      end
      if blocked then
        redis.call('ZADD', scheduled, unpack(blocked))
      end
      if stated then
        redis.call('HSET', states, unpack(stated))
      end
      if deadlines then
        redis.call('ZADD', expiring, unpack(deadlines))
      end
      redis.call('HSET', messages, unpack(records)) -- from here on they are sent
      redis.call('HINCRBY', counters, 'sent', packed)
      if not paused and places[1] and (delay == 0 or redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2] == places[1]) then
        wake_one()
      end
    end
    if #known > 0 then
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
      -- The items that a send found known, each with the name of its message's place: ready, scheduled, leased, dead, expired or
      -- acked; 'later' if only a later version can tell; then '/' and its birth, 0: unknown; then '/key' if the message has another
      -- key than the item. Those that dead letters block are counted.
      --   items: id, payload, … from `first` on; existing: as in lib/asked; false: an earlier item of this call has the id, and is
      --   written
      local WITH_FIELDS, OTHERS = 0x20, 0x40 -- the flag of fields and headers in a payload, and the next

      local function lane_in(payload)
        return payload:byte(1) % OTHERS >= WITH_FIELDS and lanes_in(payload, 2) or nil
      end

      -- The place of a message, its birth, and whether it has the key that the payload has.
      local function place_of(id, payload)
        local text = redis.call('HGET', states, id)
        local head, later = head_of(id, text)
        if later then
          return text and text:find(' %+%S+ ') and 'leased' or 'later', 0, true
        end
        local state, has_key = parse_state(text, head.birth), head.lane == lane_in(payload)
        if state.mark == '+' then
          return 'leased', head.birth, has_key
        elseif state.part ~= 'live' then
          return state.part, head.birth, has_key
        end
        local waits = redis.call('ZSCORE', scheduled, member_of(id, head, state.due))
        return waits and 'scheduled' or 'ready', head.birth, has_key
      end

      local function with_places(known, items, first, existing)
        local placed, blocked = {}, 0
        for at, n in ipairs(known) do
          local place, birth, has_key = 'acked', tonumber(existing[n]) or 0, true
          if existing[n] ~= true and type(existing[n]) ~= 'number' then
            place, birth, has_key = place_of(items[first + 2 * n - 2], items[first + 2 * n - 1])
          end
          placed[2 * at - 1], placed[2 * at] = n, place .. string.format('/%.0f', birth) .. (has_key and '' or '/key')
          blocked = blocked + (place == 'dead' and 1 or 0)
        end
        if blocked > 0 then
          redis.call('HINCRBY', counters, 'known', blocked)
        end
        return placed
      end
      known = with_places(known, items, first, existing)
    end
    return sent and known
  end
  add(ARGV, 9, #ARGV, 0, ttl, '')
end
if at ~= '' then
  redis.call('ZADD', ticks, 'NX', at, name) -- first, so that each record is found
end
if record == '' then
  redis.call('HDEL', schedules, name)
else
  redis.call('HSET', schedules, name, record) -- from here on the tick is sent
end
if at ~= '' then
  redis.call('ZADD', ticks, at, name)
else
  redis.call('ZREM', ticks, name)
end
if act ~= '' then
  local function read_json(text)
    local decoded, value = pcall(cjson.decode, text or '')
    return decoded and type(value) == 'table' and value or {}
  end
  -- Records an act of an operator, or one that an operator had ordered; a queue keeps the newest thousand notes.
  --   did: the act, in a word; by: the operator, as JSON; user: the Redis user; then more names and values
  local MOST_NOTES = '1000'

  local function note_audit(did, by, user, ...)
    redis.call('XADD', audit, 'MAXLEN', '~', MOST_NOTES, '*', 'did', did, 'by', by, 'user', user, ...)
    redis.call('PERSIST', audit) -- the queue may have been deleted (delete), and created again
  end
  -- Records an act of an operator that takes one call.
  --   act: as in lib/note_act; empty: no note
  local function note_once(act)
    local told = read_json(act)
    if told[1] then
      note_audit(told[2], told[3], told[4], 'act', told[1], 'chosen', told[5], 'how', told[6])
    end
  end
  note_once(act)
end
return 1
