-- The seats of a lane: with a rule for keys, a message is ready or leased only while it holds one.
--
-- A seat is a member of a set, the message's id, not a number: a counter goes wrong if an ack is repeated, or comes after
-- the lapse that has already given the seat back. Two doors, `gone` and `put`, handle the seats for every verb
-- (`tests/scripts/test_doors.py` lists the exceptions).
--
-- - Blocked messages are in `scheduled`, at a score beyond all times, not in an index of their own. So counts, alarms,
--   pages, purges, expiry and `reindex` handle them. No state is written for one, which would put it on the slow path of
--   claims.
-- - A call that gives a seat (Seats.admit, a send with a key) first moves due messages to their places. Otherwise the
--   next blocked one would be admitted before one that was delayed and sorts in front of it.
-- - A seat that is given back admits one message; those that are left are not counted, since no lane has too many: a
--   cancel of a running call replaces the seat of the message by that of the call, and `tend`, which reads all seats in
--   turn, sets `narrowed` where a lane has too many.
-- - Admitted means due now, behind all messages that are due by now, so lanes take turns. Many come in one millisecond;
--   with `fair` each stands 1/128 ms behind the last, or ties would go to the oldest lane (37 % apart instead of 8 %).
-- - The verbs on chosen messages read blocked ones first, and change ready ones first: one that is removed admits the next
--   of its key, and a redrive follows the order of the deaths. A message that was admitted meanwhile is still changed
--   (Choice.each). A whole purge begins with blocked messages, since order does not matter to it.
local STEP = 2 ^ -7 -- milliseconds between two messages that are admitted; a score has room for it (Order)

-- How many messages of a lane may be admitted: as many as seats are free, below 0: so many are too many; if keys have a
-- rate, one when its slot is over, unless one that was admitted so is still ready.
--   name: of the lane (Values.digits); is_slot_over: of the lane (Rates.with_slot); nil: unknown
function Seats.free_seats(q, name, is_slot_over)
  local by_rate = name .. Lanes.BY_RATE
  local held = redis.call('ZCOUNT', q.seats, name, by_rate)
  local free = Lanes.limit_of(q, name) - held
  if q.rule.interval and free > 0 then
    is_slot_over = is_slot_over or not Rates.slot_of(q, name)
    free = is_slot_over and (held == 0 or redis.call('ZCOUNT', q.seats, by_rate, by_rate) == 0) and 1 or 0
  end
  return free
end

-- The scores of the seats of messages, if keys have a rate and this call gave all of them; nil: it did not.
function Seats.given(q, ids)
  local given, held = q.seats_given, {}
  for n = 1, #ids do
    held[n] = given[ids[n]]
    if not held[n] then
      return nil
    end
  end
  return held
end

-- The score of the seat that a message takes when it is admitted.
--   name: of its lane
function Seats.seat_in(q, name)
  return q.rule.interval and name .. Lanes.BY_RATE or name
end

-- Gives a message a seat of its lane, if it may have one: it holds one already, or one is free, and no other message of the
-- lane is blocked, and the lane is not closed. So no message overtakes a blocked one. Returns whether it may be ready; if
-- not, also the score of its row in `scheduled`: that of a blocked one, or its slot, for which it waits with its seat.
--   full: the lanes that were found full, for a call that only enters messages; nil: check each time
function Seats.enter(q, id, row, lane, full)
  if q.rule.limit == math.huge then
    return true
  end
  local has_room, name = not (full and full[lane] or Lanes.is_closed(q, lane)), Values.digits(lane)
  if has_room then
    local score = Values.digits(Lanes.BLOCKED + lane)
    local first = redis.call('ZRANGEBYSCORE', q.scheduled, score, score, 'LIMIT', '0', '1')[1]
    -- If keys have a rate, the first may wait beyond its slot, and leave: Rates.admit_due then admits the next.
    has_room = (not first or first == row and not q.rule.interval) and Seats.free_seats(q, name) > 0
  end
  if has_room then
    redis.call('ZADD', q.seats, Seats.seat_in(q, name), id) -- before its row in `ready`
    return true
  elseif full then
    full[lane] = true
  end
  local own = redis.call('ZSCORE', q.seats, id)
  local may, slot = own ~= false, nil -- its own seat counts as free
  if own and q.rule.interval then
    may, slot = Rates.comes_by_rate(q, id, lane, tonumber(own))
  end
  return may, slot or Lanes.BLOCKED + lane
end

-- Whether a message that is not leased keeps the seat that it has.
--   waits: for its redelivery, or, by the rate of keys, for its slot
function Seats.keeps_seat(q, state, waits)
  if state.part ~= 'live' then
    return q.rule.holds and state.part == 'dead' and state.reason ~= 'expired'
  end
  return not waits or q.rule.in_order
end

-- Moves the row of a message from `ready` to its lane, where it waits for a seat, or is parked. Its state stays.
function Seats.block(q, lane, row)
  redis.call('ZADD', q.scheduled, Lanes.BLOCKED + lane, row)
  redis.call('ZREM', q.ready, row)
end

-- Whether a row of a lane belongs to a message that waits there, as far as this version can tell. A state that says dead
-- does not tell, since a purge that was cut off may have left it; the row of the dead letter does.
function Seats.is_blocked_row(q, row, id, text, record)
  if not record then
    return false
  elseif not text and row:sub(2, 8) == record:sub(1, 7) and row:byte(1) == 9 - record:byte(8) % 16 then
    return true -- as for most: no call has touched it
  elseif Record.is_later(record, text) then
    return true
  end
  local head = Record.head_in(record, text)
  local state = State.parse(text, head.birth)
  return state.mark == '-' and Order.member_of(id, head, state.due) == row
    and not Places.left_over(q, q.scheduled, row, id, state, head)
end

-- The score in `ready` of the next message that is admitted: behind all messages that are due by now or, if lanes take
-- turns, behind all that are there.
--   first: the first byte of its row, which encodes its priority; scores: the last ones, by that; wholes: these without
--   fractions, as texts
local function next_score(q, first, scores, wholes)
  local score, in_turn = scores[first], q.rule.in_turn
  if not score then
    local now = Order.score_of(9 - first, q.now)
    local last = in_turn and tonumber(redis.call('ZRANGE', q.ready, -1, -1, 'WITHSCORES')[2] or nil) or 0
    score = last > now and last < now + 60000 and last or now + 1
  end
  score = in_turn and score + STEP or score
  local fraction = score % 1
  if fraction == 0 or not wholes[first] then
    wholes[first] = Values.digits(score - fraction)
  end
  scores[first] = score
  return fraction > 0 and wholes[first] .. string.format('.%07d', fraction * 10 ^ 7) or wholes[first]
end

-- The first rows of these lanes, whose slots are over, their ids, and the scores of the seats that they get.
local function first_rows(q, names, room)
  local rows, ids, seats, count = {}, {}, {}, 0
  local gates = q.set.gated or next(q.lanes_read)
  local none_held = q.rule.interval and redis.call('ZCARD', q.seats) == 0 -- then those of a lane need no count
  for n = 1, #names do
    local name, most = names[n], Bounds.ROWS - count
    local lane = name + 0
    local free = gates and Lanes.is_gated(q, lane) and 0 or room and room[name] or none_held and 1
      or Seats.free_seats(q, name, true)
    free = free < most and free or most
    if free > 0 then
      local found, seat = Lanes.blocked_rows(q, lane, free), Seats.seat_in(q, name)
      for at = 1, #found do
        local row = found[at]
        count = count + 1
        rows[count], ids[count], seats[count] = row, row:sub(9), seat -- a row of a lane has the long form (Order)
      end
    end
  end
  return rows, ids, seats
end

-- Admits the first messages of these lanes. A row whose message is gone, leased or elsewhere is dropped, and the next
-- taken.
--   names: of the lanes; room: name → how many of it, even without free seats; nil: as many as seats are free
local function admit_first(q, names, room)
  local rows, ids, seats = first_rows(q, names, room)
  if #rows == 0 then
    return
  end
  local texts, records = redis.call('HMGET', q.states, unpack(ids)), redis.call('HMGET', q.messages, unpack(ids))
  local taken, came, again, dropped, last = {}, {}, {}, {}, 0
  local scores, wholes, in_turn = q.next_scores, q.next_wholes, q.rule.in_turn
  local given, by_rate = q.seats_given, q.rule.interval -- otherwise it is not asked for
  for n = 1, #rows do
    local row, id = rows[n], ids[n]
    if Seats.is_blocked_row(q, row, id, texts[n], records[n]) then
      local first = row:byte()
      taken[last + 1], taken[last + 2] = seats[n], id
      if by_rate then
        given[id] = seats[n]
      end
      came[last + 1], came[last + 2] = not in_turn and wholes[first] or next_score(q, first, scores, wholes), row
      last = last + 2
    else
      local name = Lanes.name_in(seats[n])
      if not dropped[name] then
        again[#again + 1] = name
      end
      dropped[name] = (dropped[name] or 0) + 1
    end
  end
  if last > 0 then
    Lanes.add(q.seats, taken)
    Lanes.add(q.ready, came)
    Queue.wake(q)
  end
  redis.call('ZREM', q.scheduled, unpack(rows)) -- the last: by such a row the next sees what was cut off
  if #again > 0 then
    admit_first(q, again, room and dropped)
  end
end

-- Moves the messages that are due by now to `ready` or their lanes, once a call: one may be the first of its lane.
--   leaving: as in Upkeep.promote_due
function Seats.due_first(q, leaving)
  if not q.are_due_moved then
    q.are_due_moved = true
    if Upkeep.promote_due(q, nil, leaving) > 0 then
      Queue.wake(q)
    end
  end
end

-- The same, once those that are due by now are in `ready` or their lanes.
--   have_slots: the slots of all are over; nil: unknown
function Seats.admit(q, names, room, have_slots)
  Seats.due_first(q)
  names = q.rule.interval and not (room or have_slots) and Rates.with_slot(q, names) or names
  admit_first(q, names, room)
end

-- Gives back the seats that these messages hold, and admits as many messages of their lanes. Those that are left are
-- counted only if lanes take turns, since a claim may have been filled (narrow.lua), and if keys have a rate.
--   held: the score of the seat of each, false: it has none; nil: unknown
function Seats.vacate(q, ids, held)
  if redis.call('ZCOUNT', q.scheduled, Lanes.BLOCKED, '+inf') == 0 then -- no message is blocked
    redis.call('ZREM', q.seats, unpack(ids))
    return
  end
  local names, size, room = {}, 0, {}
  held = held or redis.call('ZMSCORE', q.seats, unpack(ids))
  for n = 1, #ids do
    local name = held[n] and Lanes.name_in(held[n])
    if name and not room[name] then
      size = size + 1
      names[size], room[name] = name, 1
    elseif name then
      room[name] = room[name] + 1
    end
  end
  if size > 0 then
    Seats.due_first(q, ids)
    redis.call('ZREM', q.seats, unpack(ids))
    Seats.admit(q, names, not q.rule.in_turn and not q.rule.interval and room or nil)
  end
end

-- Ends the passes of messages.
function Seats.end_passes(q, ids)
  local passes = {}
  for n, id in ipairs(ids) do
    passes[n] = Lanes.PASS .. id
  end
  redis.call('ZREM', q.seats, unpack(passes))
  redis.call('ZREM', q.gates, unpack(passes))
end
