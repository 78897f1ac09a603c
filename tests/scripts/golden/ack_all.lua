-- Acks all of the messages or none: the end of a session that sends nothing. Returns, for each item that is not held, its
-- position (1, 2, …) and its verdict. If there is one, nothing was changed.
-- drains
-- items from ARGV[1]: id, token
local messages, states, history, ready, scheduled = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local dead, expired, leases, claims, counters = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local settings, wake, outcomes, acked_ids, redrives = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local audit, seats, gates, lanes, strikes = KEYS[16], KEYS[17], KEYS[18], KEYS[19], KEYS[20]
local results, result_times, slots, runs = KEYS[21], KEYS[22], KEYS[23], KEYS[24]
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
-- The fence (I2): only the token that holds a message may settle it.
local needle_of, needle
local function holds(token, text)
  if token ~= needle_of then
    needle_of, needle = token, ' +' .. token .. ' '
  end
  return text and text:find(needle, 1, true) ~= nil
end
-- The verdicts on a message that a caller settles.
local SETTLED, SETTLED_BEFORE, LOST, GONE = 1, 2, 0, -1
-- The verdict on a message that the caller's token does not hold. The state has the token that settled it, so that a call
-- whose reply was lost can be repeated (I12).
local function refusal(id, token, text)
  if text and text:find(' -' .. token .. ' ', 1, true) then
    return SETTLED_BEFORE
  end
  return redis.call('HEXISTS', messages, id) == 1 and LOST or GONE
end
-- Removes messages that were acked, given their ids, their states before the ack, and their results (lib/acked).
-- Returns the dependency whose breaker that closed; nil: none.
local function remove_acked(ids, texts, given)
  -- Removes messages that were acked, and counts them. Statements, as in lib/chosen.
  --   ids, texts: the messages, and their states before the ack
  --   given: id → its result (lib/kept)
  --   back: the dependency whose breaker this closed; nil: none
  local WORDLESS = 75 -- bytes; a state with the field of a redrive (lib/bring_back) is longer, most others are not
  local values = redis.call(
    'HMGET', settings, 'outcomes', 'dedup_window', 'per_key', 'breaker', 'gated', 'results', 'results_bytes'
  )
  local noted, dedup_window, per_key, gated = values[1], values[2], values[3], values[5]
  local acked, back, note, heads, once_gone, successes, probes, firsts
  if (values[4] or gated) and redis.call('EXISTS', strikes, lanes, runs) > 0 then
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
    -- The lane of the dependency of a message that is not of a later form, from its state if that has it (lib/head_word),
    -- otherwise from its record; nil: none, or the message is gone. It defines little: acks need no more of the head
    -- (lib/head_of).
    local function needs_of(id, text)
      if text:find(' head=', 1, true) then
        return tonumber(text:match(' needs=(%d+)') or nil)
      end
      local record = redis.call('HGET', messages, id)
      local _, needs = lanes_of(record or '')
      return needs
    end
    -- Reads acked messages before they are removed: how many needed each dependency, and of these how many succeeded at their
    -- first attempts; and for each dependency that is down, whether one of them was a probe. Statements, as in lib/chosen: while
    -- messages fail, each ack runs them. Functions for a dependency that is down are defined only then.
    local succeeded, first_tried, needs, probed = {}, {}, {}, {}
    local UNCHARGED = '^%S+ %S+ %d+ %d+ 0 '
    for n, id in ipairs(ids) do
      local number = needs_of(id, texts[n])
      if number then
        succeeded[number], needs[n] = (succeeded[number] or 0) + 1, number
        if texts[n]:find(UNCHARGED) and not texts[n]:find(' struck=', 1, true) then
          first_tried[number] = (first_tried[number] or 0) + 1
        end
      end
    end
    if gated then
      -- Precedes, in `seats`, the id of a message that was let through the gate of its dependency; no id has this byte.
      local PASS = '\1'
      for n, dependency in pairs(needs) do
        local lane = not probed[dependency] and read_lane(dependency)
        probed[dependency] = probed[dependency] or lane and lane.open and redis.call('ZSCORE', seats, PASS .. ids[n]) or nil
      end
    end
    successes, probes, firsts = succeeded, probed, first_tried
  end
  if noted or dedup_window then
    -- The server's clock in whole milliseconds, read once per script (I11).
    local clock = redis.call('TIME')
    local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
    if dedup_window then
      -- A duration in the queue's settings, in milliseconds; nil if the text is not one, which counts as unset.
      local function span(text)
        local value = tonumber(text and text:match('^%d+$') or nil)
        return value and value > 0 and value <= 315360000000 and value or nil -- ten years
      end
      -- Remembers acked ids for the queue's dedup_window: a send under one of them is known (lib/recall_acked). It removes at
      -- most twice as many past ids as it adds (I9), and the key expires when nothing was acked for that time (I13).
      local function remember_acked(ids)
        local window, rows, score = span(dedup_window), {}, string.format('%.0f', now)
        if not window then
          return
        end
        for _, id in ipairs(ids) do
          rows[#rows + 1], rows[#rows + 2] = score, id
        end
        redis.call('ZADD', acked_ids, unpack(rows))
        redis.call('PEXPIRE', acked_ids, window)
        local over = redis.call('ZRANGEBYSCORE', acked_ids, '-inf', now - window, 'LIMIT', 0, 2 * #ids)
        if #over > 0 then
          redis.call('ZREM', acked_ids, unpack(over))
        end
      end
      once_gone = remember_acked
    end
    if noted then
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
      -- The consumer that was given the messages of a claim, as a JSON text.
      local holders = {}
      local function holder(token)
        holders[token] = holders[token] or (redis.call('HGET', claims, token) or ''):match('^[^\t\n]*')
        return holders[token]
      end
      -- Records acked messages in the outcome history, from their heads and their states before the ack, if these can be read.
      local function note_acked(ids, heads, texts)
        for n, id in ipairs(ids) do
          if heads[n] then -- otherwise an ack was cut off
            local state = parse_state(texts[n], heads[n].birth)
            outcome('acked', id, heads[n], state, 0, { consumer = holder(state.token) })
          end
        end
      end
      note, heads = note_acked, {}
      for n, id in ipairs(ids) do
        heads[n] = head_of(id, texts[n])
      end
    end
  end
  local with_result, births
  for n = 1, #ids do
    if texts[n]:find(' result=', 1, true) then
      with_result, births = with_result or {}, births or {}
      local last, birth = #with_result + 1, texts[n]:match(' result=(%d*)')
      if #birth < 2 then -- version 0.1.0 sent it
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
        local head = head_of(ids[n], texts[n])
        birth = head and string.format('%.0f', head.birth) or '0'
      end
      with_result[last], births[last] = ids[n], birth
    end
  end
  if with_result then -- first, so that a message that is gone has its result
    local clock = redis.call('TIME')
    local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
    local ended, ends, kept_for, most_bytes = with_result, {}, values[6], values[7]
    for n, id in ipairs(ended) do
      ends[n] = string.format('acked %.0f ', now) .. (given[id] or '') -- %s would end at a byte 0
    end
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
  end
  do
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
      -- Ends the passes of messages that were let through the gate of their dependency.
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
      -- The score in `scheduled` of a message that waits for a seat of its lane is this and the lane. As a time: the year 2248.
      local BLOCKED = 2 ^ 43
      -- Lets in the heads of lanes, once the messages that are due by now are at their places (`due_first`): one that was delayed
      -- may be the head. Defines the large fragments when they are needed: most scripts let no message in.
      --   leaving: as in lib/promote
      local are_moved, made
      local function due_first(leaving)
        if not are_moved then
          are_moved = true
          local clock = redis.call('TIME')
          local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
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
          local clock = redis.call('TIME')
          local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
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
      vacate(ids)
    end
    acked = gone
  end
  redis.call('HINCRBY', counters, 'acked', acked)
  if successes then
    local WHOLE = string.format('%d', 2 ^ 43) == '8796093022208' and '%d' or '%.0f' -- %d is faster, and has 32 bits on some servers

    local function digits(number)
      return string.format(WHOLE, number)
    end
    -- Counts the successes of dependencies that have failed lately, and ends their runs. Returns the name of a dependency whose
    -- breaker that closed; nil: of none.
    --   successes, firsts, probed: from lib/succeeded; batch: how many messages were acked
    local function count_successes(successes, firsts, probed, gated, batch)
      local back
      for dependency, times in pairs(successes) do
        local name = digits(dependency)
        redis.call('HDEL', runs, name)
        if firsts[dependency] and redis.call('HEXISTS', strikes, name) == 1 then
          local clock = redis.call('TIME')
          local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
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
          -- The share of failures of a dependency: for each sixth of `breaker.within` a line of how many messages failed, and how many
          -- succeeded, at their first attempts. Successes count only while there are failures.
          --   SLOT FIRST FAILURES SUCCESSES: the number of the sixth, and when the first failed in it (0: none did)
          -- `strikes` expires with the last window.
          local SLOTS = 6
          local LINE = '(%d+) (%d+) (%d+) (%d+)'
          local slot = math.floor(now / math.max(breaker.within / SLOTS, 1))

          -- The lines of the window, the oldest first, and whether there were none.
          local function read_window(name)
            local lines = {}
            for number, first, failures, successes in (redis.call('HGET', strikes, name) or ''):gmatch(LINE) do
              number = tonumber(number)
              if number > slot - SLOTS and number <= slot then
                lines[#lines + 1] = {
                  slot = number, first = tonumber(first), failures = tonumber(failures), successes = tonumber(successes),
                }
              end
            end
            return lines, #lines == 0
          end

          -- failures, successes: how many more
          local function add_to_window(name, lines, failures, successes)
            local last, texts = lines[#lines], {}
            if not last or last.slot ~= slot then
              last = { slot = slot, first = 0, failures = 0, successes = 0 }
              lines[#lines + 1] = last
            end
            last.first = last.first == 0 and failures > 0 and now or last.first
            last.failures, last.successes = last.failures + failures, last.successes + successes
            for n, line in ipairs(lines) do
              texts[n] = string.format('%.0f %.0f %d %d', line.slot, line.first, line.failures, line.successes)
            end
            redis.call('HSET', strikes, name, table.concat(texts, '\n'))
            redis.call('PEXPIRE', strikes, breaker.within)
          end
          add_to_window(name, read_window(name), 0, firsts[dependency])
        end
        if gated then
          local clock = redis.call('TIME')
          local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
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
          local said = setting('breaker') or ''
          local breaker = {
            distinct = tonumber(said:match('^distinct=(%d+) ') or nil) or math.huge,
            within = tonumber(said:match(' within=(%d+)ms') or nil) or 0,
            share = tonumber(said:match(' share=([%d.]+)') or nil) or 1,
            probe = tonumber(said:match(' probe=(%d+)ms') or nil) or 1000,
            longest = tonumber(said:match(' longest_probe=(%d+)ms') or nil) or 30000,
          }
          local BLOCKED = 2 ^ 43
          local TRIED = '.5'
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
          -- The longest wait until the next probe of a dependency, milliseconds: `breaker.longest`, twice as long for each call that
          -- was let through and did not end in that time, at most an hour. And how many such calls there are.
          --   name: its lane, as text
          local HOUR = 3600000

          local function hung_wait(name)
            local hung = redis.call('ZCOUNT', seats, name .. TRIED, name .. TRIED)
            return hung == 0 and breaker.longest or math.min(breaker.longest * 2 ^ hung, HOUR), hung
          end
          local PASS = '\1'
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
          -- Records an act of an operator, or one that an operator had ordered; a queue keeps the newest thousand notes.
          --   did: the act, in a word; by: the operator, as JSON; user: the Redis user; then more names and values
          local MOST_NOTES = '1000'

          local function note_audit(did, by, user, ...)
            redis.call('XADD', audit, 'MAXLEN', '~', MOST_NOTES, '*', 'did', did, 'by', by, 'user', user, ...)
            redis.call('PERSIST', audit) -- the queue may have been deleted (delete), and created again
          end
          -- The success of a probe closes the breaker of its dependency; this success and each that follows let in two more messages.
          -- Returns the name of the dependency, if it was closed.
          --   acks: how many of its messages have succeeded; batch: how many messages were acked with them
          local MOST = 1000 -- of a batch (I9)

          local function come_back(number, lane, acks, batch)
            local closed = lane.open and lane.name
            lane.most = math.min(batch, MOST)
            if closed then
              note_audit('closed', '"breaker"', '', 'number', count_parked(number), 'chosen', 'dependency ' .. lane.name)
              lane.open, lane.probe, lane.probes, lane.wait, lane.idle, lane.dead, lane.died, lane.error = nil, nil, nil, nil, nil, nil, nil, nil
              lane.drains, lane.drain = now, now + breaker.probe
              write_lane(number, lane) -- first: while the breaker is open, only probes have a pass
            end
            if not lane.paused then
              drain(number, lane, 2 * acks)
            end
            return closed
          end
          local lane = read_lane(dependency)
          if lane and (lane.open and probed[dependency] or lane.drains) then
            back = come_back(dependency, lane, times, batch) or back
          end
        end
      end
      return back
    end
    back = count_successes(successes, firsts, probes, gated, #ids)
  end
  if noted then
    note(ids, heads, texts)
  end
  for n = 1, acked do
    local job = #texts[n] > WORDLESS and texts[n]:match(' redrive=([^/ ]+)/')
    if job then
      -- Counts, for a redrive, the outcome of a message that it moved back: acked or died. Not counted if the redrive has been
      -- forgotten.
      local function count_redriven(job, what)
        if redis.call('HEXISTS', redrives, job .. ' ' .. what) == 1 then
          redis.call('HINCRBY', redrives, job .. ' ' .. what, 1)
        end
      end
      count_redriven(job, 'acked')
    end
  end
  return back
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
local ids, texts, held, lost, seen = {}, {}, {}, {}, {}
for i = 1, #ARGV, 2 do
  local id, token = ARGV[i], ARGV[i + 1]
  local text = redis.call('HGET', states, id)
  local verdict = holds(token, text) and SETTLED or refusal(id, token, text)
  if verdict == SETTLED and not seen[id] then -- an item may be given twice
    ids[#ids + 1], texts[#ids + 1] = id, text
    held[token], seen[id] = (held[token] or 0) + 1, true
  elseif verdict ~= SETTLED then
    lost[#lost + 1], lost[#lost + 2] = (i + 1) / 2, verdict
  end
end
if #lost == 0 then
  remove_acked(ids, texts, {})
  let_go(held)
end
return lost
