-- Lets in messages of a dependency that is up again, never more than 32 at a time, or as many as the last batch that
-- succeeded had, so that other messages do not wait behind a flood. If none is out any more, it goes on by probes
-- (Gates.pass_gates). When none is blocked, and none is ready or being processed, the drain ends.
--   count: the most messages that this call lets in
local AT_ONCE = 32 -- ready or being processed

function Gates.drain(q, number, lane, count)
  local name = Values.digits(number)
  local room = math.max(AT_ONCE, lane.most or 0) - redis.call('ZCOUNT', q.seats, name, name)
  count = math.max(0, math.min(count, room))
  if count > 0 then
    Probes.give_passes(q, number, Probes.parked_rows(q, number, count), count)
  end
  local waiting, out = Probes.count_parked(q, number), redis.call('ZCOUNT', q.seats, name, name)
  local longest, hung = Probes.hung_wait(q, name)
  lane.hung = hung > 0 and lane.hung or nil
  if waiting + out + hung > 0 then
    lane.drain = q.now + (out == 0 and hung > 0 and (waiting > 0 and longest or q.breaker.longest) or q.breaker.probe)
  else
    lane.drains, lane.drain, lane.most = nil, nil, nil
  end
  Lanes.write(q, number, lane)
end

-- Tests a dependency whose breaker is open, if no message is on its way. The wait until the next probe doubles. Beside
-- calls that hang, one message comes instead of three, and later (Probes.hung_wait). If no message waits twice in a row,
-- and none hangs, the breaker is closed.
local AT_A_TIME = 3

local function probe(q, number, lane)
  local name, wait = Values.digits(number), math.min(lane.wait or q.breaker.probe, q.breaker.longest)
  local longest, hung = Probes.hung_wait(q, name)
  lane.probe = q.now + (hung > 0 and longest or wait)
  lane.hung = hung > 0 and lane.hung or nil
  if redis.call('ZCOUNT', q.seats, name, name) > 0 then
    lane.probe = q.now + q.breaker.probe
  elseif Probes.count_parked(q, number) > 0 then
    lane.wait, lane.idle = 2 * wait, nil
    Probes.probe(q, number, lane, hung > 0 and 1 or AT_A_TIME, tonumber(q.seed))
  elseif lane.idle and hung == 0 then
    Audit.note(q, 'closed', '"breaker"', '', 'number', 0, 'chosen', 'dependency ' .. lane.name)
    lane = nil
  else
    lane.idle, lane.probe = true, q.now + longest
  end
  Lanes.write(q, number, lane)
end

-- Ends a pass that has been out for `breaker.longest`, so that a call that hangs keeps no dependency closed. Such a call
-- may go on; its pass no longer counts among those that are out. The more such calls there are, the later the next probe
-- comes:
-- otherwise they would take all workers. A message that no consumer has claimed in that time waits again.
--   member: of `gates` (Probes.give_passes); at: its score there
local function end_pass(q, member, at)
  local number = tonumber(redis.call('ZSCORE', q.seats, member) or nil)
  if number and number % 1 == 0 then
    local text, lane = redis.call('HGET', q.states, member:sub(2)), Lanes.read(q, number)
    if lane and text and text:find('^%a+/?%a* %+') then
      redis.call('ZADD', q.seats, number + 0.5, member) -- Lanes.TRIED
      local began = at - q.breaker.longest
      local following = began + Probes.hung_wait(q, Values.digits(number))
      lane.probe = lane.open and math.max(lane.probe or 0, following) or nil
      lane.drain = lane.drains and math.max(lane.drain or 0, following) or nil
      lane.hung = lane.hung or began
      Lanes.write(q, number, lane)
    else
      redis.call('ZREM', q.seats, member)
    end
  end
  redis.call('ZREM', q.gates, member)
end

-- Forgets what is known of an open breaker.
local function reset(lane)
  for _, name in ipairs({ 'open', 'probe', 'probes', 'wait', 'idle', 'dead', 'died', 'error' }) do
    lane[name] = nil
  end
end

-- Opens a closed lane: the lane of a key lets in messages that have or get a seat; the lane of a dependency drains.
local ROWS = 1000 -- rows of a key without a rule; Tend.tend does the rest (I9)
local AT_FIRST = 32

function Gates.reopen(q, number, lane)
  lane.paused, lane.ends, lane.by, lane.open = nil, nil, nil, nil
  if lane.of == 'dependency' then
    reset(lane)
    lane.drains, lane.drain = lane.drains or q.now, q.now + q.breaker.probe
    Lanes.write(q, number, lane) -- first: while it is open, only probes have a pass
    Gates.drain(q, number, lane, AT_FIRST)
    return
  end
  Lanes.write(q, number, nil)
  if q.rule.limit < math.huge then
    return Seats.admit(q, { number })
  end
  local score, due = Values.digits(Lanes.BLOCKED + number), {}
  for _, row in ipairs(redis.call('ZRANGEBYSCORE', q.scheduled, score, score, 'LIMIT', 0, ROWS)) do
    due[#due + 1], due[#due + 2] = q.now, row
  end
  if #due > 0 then
    redis.call('ZADD', q.scheduled, unpack(due))
  end
end

-- Handles due events of lanes: a probe, a step of a drain, the end of a pause, of a pass, or of the time in which failures
-- do not open a breaker.
local LANES, GATES = 10, 100 -- lanes, and lanes and passes, per call (I9)
local THREE = 3

-- A drain in which no message is out goes on by probes.
local function go_on(q, number, lane)
  local name = Values.digits(number)
  if redis.call('ZCOUNT', q.seats, name, name) == 0 then
    Probes.probe(q, number, lane, lane.hung and 1 or THREE, tonumber(q.seed))
  end
  Gates.drain(q, number, lane, 0)
end

local function pass_lane(q, number, lane)
  if lane.paused and not (lane.ends and lane.ends <= q.now) then
    Lanes.write(q, number, lane) -- it ends by its own time or when an operator ends it, whatever else is due
  elseif lane.open and q.set.breaker then
    lane.paused, lane.ends, lane.by = nil, nil, nil
    if (lane.probe or q.now) > q.now and lane.probe <= q.now + Probes.hung_wait(q, Values.digits(number)) then
      Lanes.write(q, number, lane)
    else
      probe(q, number, lane)
    end
  elseif lane.open or lane.paused then
    Gates.reopen(q, number, lane)
  elseif lane.drains then
    go_on(q, number, lane)
  else
    lane.trusts = lane.trusts and lane.trusts > q.now and lane.trusts or nil
    Lanes.write(q, number, lane)
  end
end

function Gates.pass_gates(q)
  local due = redis.call('ZRANGEBYSCORE', q.gates, '-inf', q.now, 'WITHSCORES', 'LIMIT', 0, GATES)
  local passed = 0
  for n = 1, #due, 2 do
    local number = tonumber(due[n])
    if due[n]:sub(1, 1) == Lanes.PASS then
      end_pass(q, due[n], tonumber(due[n + 1]))
    elseif passed < LANES then
      passed = passed + 1
      local lane = Lanes.read(q, number)
      if lane then
        pass_lane(q, number, lane)
      else
        Lanes.write(q, number, nil)
      end
    end
  end
  if #due == 2 * GATES or passed == LANES then
    Queue.wake(q) -- more may be due
  end
end

local MOST = 1000 -- of a batch (I9)

-- The success of a probe closes the breaker of its dependency; this success and each that follows let in two more messages.
-- Returns the name of the dependency, if it was closed.
--   acks: how many of its messages have succeeded; batch: how many messages were acked with them
function Gates.come_back(q, number, lane, acks, batch)
  local closed = lane.open and lane.name
  lane.most = math.min(batch, MOST)
  if closed then
    Audit.note(q, 'closed', '"breaker"', '', 'number', Probes.count_parked(q, number), 'chosen', 'dependency ' .. lane.name)
    reset(lane)
    lane.drains, lane.drain = q.now, q.now + q.breaker.probe
    Lanes.write(q, number, lane) -- first: while the breaker is open, only probes have a pass
  end
  if not lane.paused then
    Gates.drain(q, number, lane, 2 * acks)
  end
  return closed
end

-- Of the rows that a claim may take, with their ids and states, those that it may hand out. The others are parked: a
-- message whose dependency is closed in the lane of the dependency, one whose key is paused in the lane of the key. With
-- ordered keys a message that waits for its dependency keeps the seat of its key, so no message overtakes it; otherwise it
-- gives the seat back. If any was parked, it reads a hundred rows more, so that few claims are enough.
local AHEAD = 100 -- rows (I9)

-- The closed lane in which a message must wait, and whether it is the lane of its dependency; nil: none.
local function closed_lane(q, id, row, text)
  if row:byte() > 15 or text and not text:find('^%a+/?%a* %-') then -- in no lane (Order), or it is leased
    return nil
  end
  local head = Record.head_of(q, id, text)
  if head and head.needs and Lanes.is_closed(q, head.needs) and not redis.call('ZSCORE', q.seats, Lanes.PASS .. id) then
    return head.needs, true
  end
  return head and head.lane and Lanes.is_closed(q, head.lane) and head.lane or nil, false
end

-- Parks a message, if it must wait; whether it must.
local function parked(q, row, id, text, leaving)
  local lane, of_dependency = closed_lane(q, id, row, text)
  if not lane then
    return false
  end
  redis.call('ZADD', q.scheduled, Lanes.BLOCKED + lane, row)
  redis.call('ZREM', q.ready, row)
  if not of_dependency then
    Seats.end_passes(q, { id })
  end
  if not (of_dependency and q.rule.in_order) then
    leaving[#leaving + 1] = id
  end
  return true
end

function Gates.past_gates(q, rows, ids, texts)
  local kept, names, lines, leaving = {}, {}, {}, {}
  for n, row in ipairs(rows) do
    if not parked(q, row, ids[n], texts[n], leaving) then
      kept[#kept + 1], names[#names + 1], lines[#lines + 1] = row, ids[n], texts[n]
    end
  end
  for _, row in ipairs(#kept < #rows and redis.call('ZRANGE', q.ready, #kept, #kept + AHEAD - 1) or {}) do
    parked(q, row, Order.id_of(row), redis.call('HGET', q.states, Order.id_of(row)), leaving)
  end
  if #leaving > 0 and q.rule.limit < math.huge then
    Seats.vacate(q, leaving)
  end
  return kept, names, lines
end
