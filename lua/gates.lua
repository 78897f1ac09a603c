-- The gates of closed lanes: messages wait at them while a dependency is down, or a key or a dependency is paused. Some get
-- a pass: the probes of a dependency that is down, and step by step the others once it is up, while its lane drains.
--
-- - A lane opens by success, not by time: each ack lets two more in. At most 32 messages have a pass, so other messages
--   do not wait behind a flood. A trigger of Spark takes up to a second, so a batch lets in twice as many as it had. More
--   than 2,000 would keep the call that opens the breaker again, and ends all passes, too long.
-- - While it drains claims park no message, so new messages cannot make the lane longer.
local AT_ONCE = 32 -- messages of a drain that are ready or being processed
local AT_FIRST = 32 -- messages with which a drain begins
local PROBES = 3 -- messages of one probe
local LANES = 10 -- lanes whose events one call handles (I9)
local MOST = 2000 -- messages of a drain that have a pass while batches are acked (I9)

-- Gives passes to messages of a dependency that is up again, never more than 32 at a time, or twice as many as the last
-- batch that succeeded had. When none is blocked, and none is ready or being processed, the drain ends.
--   count: the most messages that get one now
function Gates.drain(q, number, lane, count)
  local name = Values.digits(number)
  local room = math.max(AT_ONCE, lane.most or 0) - redis.call('ZCOUNT', q.seats, name, name)
  count = math.max(0, math.min(count, room))
  if count > 0 then
    Probes.give_passes(q, number, count)
  end
  local waiting, out = Lanes.count_blocked(q, number), redis.call('ZCOUNT', q.seats, name, name)
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
-- calls that hang, one message comes instead of three, and later. If none waits twice in a row, the breaker is closed.
local function probe(q, number, lane)
  local name, wait = Values.digits(number), math.min(lane.wait or q.breaker.probe, q.breaker.longest)
  local longest, hung = Probes.hung_wait(q, name)
  lane.probe = q.now + (hung > 0 and longest or wait)
  lane.hung = hung > 0 and lane.hung or nil
  if redis.call('ZCOUNT', q.seats, name, name) > 0 then
    lane.probe = q.now + q.breaker.probe
  elseif Lanes.count_blocked(q, number) > 0 then
    lane.wait, lane.idle = 2 * wait, nil
    Probes.probe(q, number, lane, hung > 0 and 1 or PROBES, tonumber(q.seed))
  elseif lane.idle and hung == 0 then
    Audit.note(q, 'closed', '"breaker"', '', 'number', 0, 'chosen', 'dependency ' .. lane.name)
    lane = nil
  else
    lane.idle, lane.probe = true, q.now + longest
  end
  Lanes.write(q, number, lane)
end

-- Whether a message of the same batch has a pass that hangs already: all of a batch is one call, whatever its lease.
--   text: a state; the tokens of a batch have its name, then `.NUMBER@QUEUE`
local function hangs_with(q, name, text)
  local batch = text:match('^%S+ %+(%S+)%.%d+@')
  if not batch then
    return false
  end
  local ids = redis.call('ZRANGEBYSCORE', q.seats, name .. Lanes.TRIED, name .. Lanes.TRIED, 'LIMIT', 0, Bounds.LANES)
  for n, member in ipairs(ids) do
    ids[n] = member:sub(2)
  end
  for _, other in ipairs(#ids > 0 and redis.call('HMGET', q.states, unpack(ids)) or {}) do
    if other and other:find(' +' .. batch .. '.', 1, true) then
      return true
    end
  end
  return false
end

-- Ends a pass that has been out for `breaker.longest`: a call that hangs may go on, but its pass no longer counts. The more
-- such calls there are, the later the next probe comes: otherwise they would take all workers. A message that no consumer
-- has claimed in that time waits again.
--   member: of `gates` (Probes.give_passes); at: its score there
local function end_pass(q, member, at)
  local number = tonumber(redis.call('ZSCORE', q.seats, member) or nil)
  if number and number % 1 == 0 then
    local text, lane = redis.call('HGET', q.states, member:sub(2)), Lanes.read(q, number)
    if lane and text and text:find('^%a+/?%a* %+') and not hangs_with(q, Values.digits(number), text) then
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

-- Opens a closed lane: messages of a key are admitted if they have or get a seat; the lane of a dependency drains.
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
    Seats.admit(q, { Values.digits(number) })
  else
    Lanes.make_due(q, { number }) -- Tend.tend does the rest
  end
end

-- A drain in which no message is out goes on by probes.
local function go_on(q, number, lane)
  local name = Values.digits(number)
  if redis.call('ZCOUNT', q.seats, name, name) == 0 then
    Probes.probe(q, number, lane, lane.hung and 1 or PROBES, tonumber(q.seed))
  end
  Gates.drain(q, number, lane, 0)
end

-- Handles a lane with a special state whose time has come: probes it, reopens it, drains it further, or sets its next time.
local function handle_lane(q, number, lane)
  if Lanes.is_paused(q, lane) then
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

-- Handles due events of lanes, and ends of passes.
function Gates.handle_due(q)
  local due = redis.call('ZRANGEBYSCORE', q.gates, '-inf', q.now, 'WITHSCORES', 'LIMIT', 0, Bounds.LANES)
  local handled = 0
  for n = 1, #due, 2 do
    local number = tonumber(due[n])
    if due[n]:sub(1, 1) == Lanes.PASS then
      end_pass(q, due[n], tonumber(due[n + 1]))
    elseif handled < LANES then
      handled = handled + 1
      local lane = Lanes.read(q, number)
      if lane then
        handle_lane(q, number, lane)
      else
        Lanes.write(q, number, nil)
      end
    end
  end
  if #due == 2 * Bounds.LANES or handled == LANES then
    Queue.wake(q) -- more may be due
  end
end

-- The success of a probe closes the breaker of its dependency; this success and each that follows give two more messages a
-- pass. Returns the name of the dependency, if it was closed.
--   acks: how many of its messages have succeeded; most: as in Acks.remove
function Gates.come_back(q, number, lane, acks, most)
  local closed = lane.open and lane.name
  lane.most = math.min(most, MOST)
  if closed then
    Audit.note(q, 'closed', '"breaker"', '', 'number', Lanes.count_blocked(q, number), 'chosen', 'dependency ' .. lane.name)
    reset(lane)
    lane.drains, lane.drain = q.now, q.now + q.breaker.probe
    Lanes.write(q, number, lane) -- first: while the breaker is open, only probes have a pass
  end
  if not lane.paused then
    Gates.drain(q, number, lane, 2 * acks)
  end
  return closed
end

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
  Seats.block(q, lane, row)
  if not of_dependency then
    Seats.end_passes(q, { id })
  end
  if not (of_dependency and q.rule.in_order) then
    leaving[#leaving + 1] = not leaving[id] and id or nil -- it has a second row if a call was cut off
    leaving[id] = true
  end
  return true
end

-- Of the rows that a claim may take, with their ids and states, those that it may hand out. The others are parked: in the
-- closed lane of the dependency, or of the key. With ordered keys a message that waits for its dependency keeps the seat of
-- its key, so no message overtakes it. It parks at most a hundred: the other rows stay for the next claim. If it parked
-- any, it reads more rows, so that few claims are enough.
function Gates.park_closed(q, rows, ids, texts)
  local kept, names, lines, leaving, room = {}, {}, {}, {}, Bounds.LANES
  for n, row in ipairs(rows) do
    if room == 0 then
      break
    elseif parked(q, row, ids[n], texts[n], leaving) then
      room = room - 1
    else
      kept[#kept + 1], names[#names + 1], lines[#lines + 1] = row, ids[n], texts[n]
    end
  end
  local reads_on = room > 0 and room < Bounds.LANES
  for _, row in ipairs(reads_on and redis.call('ZRANGE', q.ready, #kept, #kept + room - 1) or {}) do
    parked(q, row, Order.id_of(row), redis.call('HGET', q.states, Order.id_of(row)), leaving)
  end
  if #leaving > 0 and q.rule.limit < math.huge then
    Seats.vacate(q, leaving)
  end
  return kept, names, lines
end
