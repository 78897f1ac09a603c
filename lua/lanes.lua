-- Lanes: the messages with one key, or that need one dependency. The rule for keys, and the special states of lanes.
--
-- A queue without a rule pays nothing (`tests/scripts/test_commands.py`). Order, limits and turns differ only in how many
-- seats a lane has and when one is given back (seats.lua).
--
-- - Lanes are numbered by SHA-1, which every language has, and Redis: a sender computes the number, and `send`
--   compares. A client with another hash would break the order of a key without an error.
-- - Lanes go to Redis as texts (Values.digits): to print a number takes longer than the command does. The text is the name
--   of the lane. What gives seats by the seats or slots that it has read never prints it: their scores and members have it.
-- - A key's own limit is not a policy: policies are for queues, and there may be as many keys as customers. It is
--   stored in `special`, like a pause, and only a queue that has one reads it. It is allowed only if the rule is a limit.
-- - The rule is one setting with one text, "order hold", not fields that are merged one by one: two entries would make
--   a rule that no operator wrote.

-- The score in `scheduled` of a message that waits for a seat of its lane is this and the lane. As a time: the year 2248.
Lanes.BLOCKED = 2 ^ 43

-- This follows the lane in the score in `scheduled` of a parked message that failed as a probe, and is behind the others:
-- so the lane of a dependency is a range of two scores. In `seats` it follows the lane of a pass whose call did not end in
-- time.
Lanes.TRIED = '.5'

-- If keys have a rate, this follows the lane in the score of a seat until its message is handed out: of one in each lane.
Lanes.BY_RATE = '.5'

-- Precedes, in `seats`, the id of a message that has a pass (gates.lua); no id has this byte.
Lanes.PASS = '\1'

-- The score, in `seats`, of calls that count against `max_in_flight` (Cancel); that of a seat is a lane.
Lanes.IN_FLIGHT = -1

-- A row that is no message's and no lane's (Lanes.add): a list has no members of more than 64 bytes.
Lanes.LONG = '\31' .. ('\1'):rep(64) -- no id has such a byte
local MANY = 32 -- scores and members

-- The setting `gated` of a queue whose lanes have this version's numbers (Record.lane_of), and whether any of them has a
-- special state. Version 0.1.0 wrote 1, or nothing.
Lanes.PLAIN, Lanes.SPECIAL = 'plain', 'special'

-- The error for a queue whose lanes have the numbers of 0.1.0. A client that opens it renumbers them (renumber.lua).
local OLD = 'OLDLANES the lanes of this queue have the numbers of version 0.1.0'

-- How many walks of Tend.tend over all seats end before `narrowed` is cleared: one may be half done when it is set.
Lanes.WALKS = 2

-- The queue's rule for messages with a key. One that cannot be read counts as off.
--   per_key: order, order hold, limit N or fair N, each perhaps followed by rate R (Values.interval_of); rate R; off
--   rule.limit: seats of a lane; rule.of_each: a lane may have a limit of its own (Lanes.limit_of); rule.in_order: a seat
--   is kept until the message is gone or dead; rule.holds: even by a dead letter; rule.in_turn: it is given back when the
--   message is handed out; rule.interval: milliseconds from one that is handed out to the next; nil: keys have no rate
function Lanes.rule(per_key)
  local mode, rate = per_key:match('^(.-) ?rate (%S+)$')
  local word, detail = (mode or per_key):match('^(%a*) ?(%w*)$')
  local interval = rate and Values.interval_of(rate)
  local seats = (word == 'limit' or word == 'fair') and tonumber(detail) or (word == 'order' or mode == '') and 1 or 0
  local is_read = seats > 0 and (interval or not rate)
  return {
    limit = is_read and seats or math.huge, of_each = is_read and word == 'limit',
    in_order = word == 'order', holds = word == 'order' and detail == 'hold', in_turn = word == 'fair' or mode == '',
    interval = is_read and interval or nil,
  }
end

-- The name of the lane in the score of a seat, a text: without Lanes.BY_RATE.
function Lanes.name_in(score)
  return score:find('.', 1, true) and score:sub(1, -3) or score
end

-- Adds many rows to `seats`, `slots` or `ready` at once: score, member, … Redis keeps a short index in a list, which it
-- searches from the front for each member, until it has had a long one. If a call is cut off before that goes again,
-- Tend.tend, Rates.admit_due or a claim removes it.
function Lanes.add(index, rows)
  if #rows < MANY then
    redis.call('ZADD', index, unpack(rows))
  else
    redis.call('ZADD', index, 0, Lanes.LONG, unpack(rows))
    redis.call('ZREM', index, Lanes.LONG)
  end
end

-- Whether the lanes of a queue have this version's numbers.
--   gated: the setting
function Lanes.are_numbered(gated)
  return gated and gated ~= '1' and true or false
end

-- Whether any lane has a special state that closes it. An error if lanes count in the queue and have the numbers of 0.1.0:
-- a call that has changed something by then is as one that was cut off.
--   per_key, breaker, gated: settings
function Lanes.are_special(per_key, breaker, gated)
  if gated == Lanes.PLAIN or not (gated or per_key or breaker) then
    return false
  elseif not Lanes.are_numbered(gated) then
    error(OLD, 0)
  end
  return true
end

-- The special state of a lane; false: none, as for most lanes. The setting `gated` says whether any lane has one, or
-- `limited` if it is a limit; Tend.tend takes that back.
--   of, name: key or dependency, and its text; due: when an event of the lane is due, as in `gates`; nil: none is
--   paused: since when it is paused; ends: when that ends; nil: when an operator resumes it
--   by: the operator who paused it, as JSON; nil: a handler did (Lanes.pause_key), or an earlier version
--   limit: how many messages of a key may hold a seat, if that differs from the rule
--   open: since when its breaker is; probe: when the next probe is due; probes: how many there were; wait: milliseconds
--   after it until another one; idle: no message waited at the last one; hung: since when the call of one with a pass hangs
--   (gates.lua); error: the newest, the first cell of a cause
--   died, dead: how many messages died of the failures that opened it, and the ids of the newest of them
--   drains: since when success gives its messages passes; drain: when the next step of that is due; most: how many
--   messages may have a pass since the last ack of one of them; trusts: until when failures do not open it, since an
--   operator closed it
function Lanes.read(q, number)
  local lanes = q.lanes_read
  if lanes[number] == nil then
    local text = redis.call('HGET', q.special, Values.digits(number))
    lanes[number] = text and Values.json(text) or false
  end
  return lanes[number]
end

-- When the next event of a lane is due; nil: none is. A pause ends only by its own time.
local function next_event(q, lane)
  if lane.paused then
    return lane.ends
  end
  return lane.open and (lane.probe or q.now) or lane.drains and (lane.drain or q.now) or lane.trusts
end

-- Writes the special state of a lane, and when its next event is due. nil: it has none any more, but for its own limit.
function Lanes.write(q, number, lane)
  local name, before = Values.digits(number), q.lanes_read[number]
  lane = lane or before and before.limit and { of = before.of, name = before.name, limit = before.limit } or nil
  local is_closed_at_times = lane and (lane.paused or lane.open or lane.drains or lane.trusts)
  if lane and not is_closed_at_times and not lane.limit then
    lane = nil
  end
  q.lanes_read[number] = lane or false
  if not lane then
    redis.call('HDEL', q.special, name)
    redis.call('ZREM', q.gates, name)
    return
  end
  if not q.set.numbered then -- nothing has counted by lanes, so 0.1.0 may be at work
    Renumber.at_once(q)
  end
  if is_closed_at_times then
    redis.call('HSET', q.settings, 'gated', Lanes.SPECIAL)
  end
  if lane.limit then
    redis.call('HSET', q.settings, 'limited', 1)
  end
  lane.due = is_closed_at_times and next_event(q, lane) or nil
  if lane.due then
    redis.call('ZADD', q.gates, Values.digits(lane.due), name)
  else
    redis.call('ZREM', q.gates, name)
  end
  redis.call('HSET', q.special, name, cjson.encode(lane)) -- from here on it is in force
end

-- Whether a lane (Lanes.read) is paused, and the end of that has not come.
function Lanes.is_paused(q, lane)
  return lane.paused and (not lane.ends or lane.ends > q.now)
end

-- Whether claims hand out nothing of a lane (Lanes.read), except messages that have a pass.
function Lanes.is_closed(q, number)
  local lane = (q.lanes_read[number] or q.set.gated) and Lanes.read(q, number)
  return lane and (lane.open or Lanes.is_paused(q, lane)) and true or false
end

-- Whether a free seat admits no message of a lane: it is closed, or the lane of a dependency.
function Lanes.is_gated(q, number)
  local lane = (q.lanes_read[number] or q.set.gated) and Lanes.read(q, number)
  return lane and (lane.of == 'dependency' or Lanes.is_closed(q, number)) or false
end

-- How many messages of a lane may hold a seat: the limit of the rule, or the lane's own (Lanes.read).
--   name: of the lane
function Lanes.limit_of(q, name)
  local lane = q.rule.of_each and (q.lanes_read[name + 0] or q.set.limited) and Lanes.read(q, name + 0)
  return lane and tonumber(lane.limit) or q.rule.limit
end

-- The lane of a message with this state that is not leased, and whether the row is its own; otherwise it was left behind.
-- nil: it has no key, or is leased. A state that says dead may be left by a purge that was cut off.
function Lanes.waiting_lane(q, id, row, text)
  if text and not text:find('^%a+/?%a* %-') then
    return nil
  end
  local head = Record.head_of(q, id, text)
  if not (head and head.lane) then
    return nil
  end
  return head.lane, Order.member_of(id, head, State.parse(text, head.birth).due) == row
end

-- The first messages of a lane that are blocked, or parked: their rows in `scheduled`. Failed probes are the last.
function Lanes.blocked_rows(q, number, count)
  local score = Values.digits(Lanes.BLOCKED + number)
  local most = count == 1 and '1' or Values.digits(count)
  return redis.call('ZRANGEBYSCORE', q.scheduled, score, score .. Lanes.TRIED, 'LIMIT', '0', most)
end

-- How many messages of a lane are blocked, or parked.
function Lanes.count_blocked(q, number)
  local score = Values.digits(Lanes.BLOCKED + number)
  return redis.call('ZCOUNT', q.scheduled, score, score .. Lanes.TRIED)
end

-- Makes the first blocked messages of these lanes due, some per call: no rule blocks them any more. Returns how many.
function Lanes.make_due(q, numbers)
  local due = {}
  for _, number in ipairs(numbers) do
    for _, row in ipairs(Lanes.blocked_rows(q, number, Bounds.ROWS - #due / 2)) do
      due[#due + 1], due[#due + 2] = q.now, row
    end
  end
  if #due > 0 then
    redis.call('ZADD', q.scheduled, unpack(due))
  end
  return #due / 2
end

-- Pauses the key of a message for `span` milliseconds; of two ends the later one counts.
function Lanes.pause_key(q, id, head, span)
  local lane = Lanes.read(q, head.lane)
  if span <= 0 or lane and lane.paused and (not lane.ends or lane.ends >= q.now + span) then
    return
  end
  lane = lane or { of = 'key', name = Record.text_in(redis.call('HGET', q.messages, id) or '', 'key') }
  lane.paused, lane.ends, lane.due, lane.by = lane.paused or q.now, q.now + span, q.now + span, nil
  Lanes.write(q, head.lane, lane)
end
