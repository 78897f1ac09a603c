-- A claim, `c`: arguments by their names; `index`, where it takes from; `reply`, now, wait, then the messages that it hands
-- out; and what its steps find, as each of them says.
local STEPS = 10 -- messages that a claim moves at most in each step of maintenance (I9)
local DUE = 128 -- due messages that it also makes ready, to take them: no more fit if they were delivered before (Deliver)
local BEHIND = 15 -- messages that it also sweeps if it does nothing else

-- Adds to the reply what this token was given before and still holds, if the claim is repeated (I12); whether it holds any.
local function holds_given(q, c)
  local given, holding, bytes, reply = redis.call('HGET', q.claims, c.token), false, 0, c.reply
  if not given then
    return false
  end
  for id in (given:match('\n.*') or ''):gmatch('[^\n]+') do
    local text, record = redis.call('HGET', q.states, id), redis.call('HGET', q.messages, id)
    if record and State.holds(c.token, text) then
      holding, bytes = true, bytes + #record
      if c.answer == 'rows' then
        reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = id, record, text
        reply[#reply + 1] = redis.call('HGET', q.history, id) or ''
      end
    end
  end
  if holding and c.answer == 'count' then
    reply[3] = select(2, given:gsub('\n', '\n')) -- all that it was given: the number of lines of its list
    reply[4] = bytes -- of the messages that it still holds
  end
  if holding then
    redis.call('ZADD', q.leases, q.now + c.lease, c.token) -- the client counts its lease from this reply
  end
  return holding
end

-- Does the steps of maintenance that are due (I15). Returns whether more leases have lapsed than it swept.
local function maintain(q, c, count, thorough)
  local there = redis.call('EXISTS', q.leases, q.scheduled, q.scheduled, q.expiring, q.expiring) -- each time it is named
  local lapsed = there % 2 > 0 and redis.call('ZCOUNT', q.leases, '-inf', q.now) or 0
  local due, over = 0, 0
  if there > 1 then -- many queues have neither
    due, over = redis.call('ZCOUNT', q.scheduled, '-inf', q.now), redis.call('ZCOUNT', q.expiring, '-inf', q.now)
  end
  if lapsed + due + over == 0 then
    return false
  end
  Upkeep.sweep_lapsed(q, STEPS)
  local behind = redis.call('ZCOUNT', q.leases, '-inf', q.now) > 0
  if behind and thorough then
    Upkeep.sweep_lapsed(q, BEHIND)
    Queue.wake(q)
    return true
  end
  Upkeep.promote_due(q, STEPS + math.min(count, due > Bounds.LANES and q.set.per_key and Bounds.LANES or DUE))
  Upkeep.expire_over(q, STEPS)
  if c.part ~= 'live' and redis.call('ZCARD', q.ready) > 0 then
    Queue.wake(q)
  end
  return behind
end

-- Reads what limits the claim, and prepares lanes: `c.capacity`, how many messages it may lease; `c.resumes`, when a pause
-- ends; `c.by_rate`, what the rate allows (Rates.bucket); `c.per_key` and `c.gated`, settings; `c.paced`, whether keys have
-- a rate; `c.narrowed`, whether lanes may have too many seats. Returns whether the queue is the one that the client opened.
local function read_limits(q, c, opening)
  local set = redis.call(
    'HMGET', q.settings, 'paused', 'max_in_flight', 'opening', 'per_key', 'gated', 'paused_until', 'rate', 'narrowed',
    'cancelling', 'gathering'
  )
  if opening ~= '' and set[3] ~= opening then
    return false
  end
  if set[10] then -- otherwise `c` would get one more field
    c.gathering = true
  end
  local paused, most = set[1] == '1', set[2] and tonumber(set[2]:match('^%d+$') or nil)
  local ends = paused and tonumber(set[6] or nil)
  if ends and ends <= q.now then
    redis.call('HDEL', q.settings, 'paused', 'paused_until')
    paused = false
  end
  if paused then
    c.capacity, c.resumes = 0, ends
  elseif most and most > 0 then
    -- A message that waits for its redelivery is not in flight; a dead letter that is claimed is, and so is the call of a
    -- cancelled message, until it has ended.
    local in_flight = Places.count_outside(q) + (set[9] and Cancel.count_calls(q) or 0)
    c.capacity = math.max(0, math.min(c.capacity, most - in_flight))
  end
  if set[7] then
    c.by_rate = Rates.bucket(q, set[7])
    c.capacity = math.min(c.capacity, c.by_rate and c.by_rate.most or c.capacity)
  end
  local gated = (set[4] or set[5]) and Lanes.are_special(set[4], nil, set[5])
  if set[4] or gated then
    c.per_key, c.gated, c.narrowed, c.paced = set[4], gated, set[8], set[4] and set[4]:find('rate ', 1, true)
    if c.paced or c.narrowed or set[4] and set[4]:find('^fair') then
      c.capacity = math.min(c.capacity, Bounds.LANES)
    end
    Narrow.prepare_lanes(q, c)
  end
  return true
end

-- With a rule for keys: takes the slots and gives back the seats of the messages that the claim hands out. Returns whether
-- any message is ready now, since some were admitted; and whether no client has set its alarm for a slot.
local function hand_out(q, c)
  if not c.per_key or c.capacity == 0 then
    return false, false
  end
  local held = not c.stopped and #c.chosen == #c.ids and c.held or nil -- of all that it has chosen
  local unwatched = (c.paced or c.per_key:find('^fair')) and #c.chosen > 0 and Rates.handed_out(q, c.chosen, held)
  return redis.call('ZCARD', q.ready) > 0, unwatched
end

-- Tells one waiting client when the next event is due: a scheduled message, a lease, a time to live, a gate, a slot, the
-- end of a pause, one more message by the rate. Returns the milliseconds until then, NO_EVENT: for this client none.
local function set_alarm(q, c, patience, alarmed)
  local by_rate = c.by_rate
  local event = c.resumes or by_rate and redis.call('ZCARD', q.ready) > 0 and by_rate.at or nil
  for _, index in ipairs({ q.scheduled, q.leases, q.expiring }) do
    local at = tonumber(redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')[2])
    if at and (not event or at < event) then
      event = at
    end
  end
  if c.gated then
    local at = tonumber(redis.call('ZRANGEBYSCORE', q.gates, q.now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2])
    event = at and math.min(event or at, at) or event
  end
  if c.paced and c.capacity > 0 then -- past slots are left to claims that may take messages
    local at = tonumber(redis.call('ZRANGE', q.slots, 0, 0, 'WITHSCORES')[2])
    event = at and math.min(event or math.huge, math.ceil(at)) or event
  end
  local taken = tonumber(redis.call('GET', q.alarm) or nil)
  -- The client that holds the alarm keeps it.
  local another = event and taken and taken > q.now and taken <= event and alarmed ~= '1'
  if not event or event > q.now + patience or another then
    return Reply.NO_EVENT
  end
  local wait = math.max(event - q.now, 0)
  redis.call('SET', q.alarm, event, 'PX', wait + 1000)
  return wait
end

-- Passes the token on if messages are left; otherwise sets the alarm, or leaves that to another client.
local function wake_next(q, c, patience, alarmed)
  local are_admitted, unwatched = hand_out(q, c)
  local some_left = c.marked or c.stopped or not c.all_taken
  if c.more or are_admitted or some_left and redis.call('ZCARD', q.ready) > 0 then
    Queue.wake(q)
    c.reply[2] = c.only_suspects and Reply.SUSPECTS or 0
  else
    redis.call('DEL', q.wake)
    if #c.chosen == 0 and patience > 0 then
      c.reply[2] = set_alarm(q, c, patience, alarmed)
    end
  end
  -- another client must set its alarm
  if unwatched or alarmed == '1' and (#c.chosen > 0 or patience == 0 or c.only_suspects) then
    redis.call('DEL', q.alarm)
    Queue.wake(q)
  end
end

-- Hands out up to `count` messages under one lease, whose id is the token: the same token again gives the same deliveries
-- and claims nothing new (I12). First it does the steps of maintenance that are due (I15), so a claiming client is enough.
-- The delivery count is written here, before a consumer sees the message (I3). Returns now, wait, then id, record, state
-- and history of each message, or only their number and their bytes. wait: 0 to claim again immediately; NO_EVENT;
-- SUSPECTS; DELETED; otherwise the milliseconds until the next event. A claim that takes nothing replies 0 unless nothing
-- was ready. GATHERED and a blank before it: the caller carries the shares of gathers whose children have all ended.
-- drains
function Verbs.claim(q, ARGV)
  local token, count, lease, part, consumer = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
  local patience, alarmed = tonumber(ARGV[6]), ARGV[7] -- alarmed: 1 if the client holds the alarm
  local suspects, answer = ARGV[8], ARGV[9] -- all; of a worker: alone or none (Choose.rows); answer: rows or count
  local thorough, opening = ARGV[10], ARGV[11] -- thorough: 1: it hands out nothing until all lapsed leases are swept
  local seed, default_policy, lapse_error = ARGV[12], ARGV[13], ARGV[14]
  q.seed, q.default_policy, q.lapse_error = seed, default_policy, lapse_error
  q.now = Clock.read() -- sooner than it is first asked for, which would take longer
  local index = part == 'dead' and q.dead or part == 'expired' and q.expired or q.ready
  local c = {
    token = token, lease = lease, part = part, consumer = consumer, suspects = suspects, answer = answer, index = index,
    reply = { q.now, Reply.NO_EVENT, nil, nil, nil, nil }, capacity = count, rows = false, ids = false, texts = false,
    chosen = false, all_taken = false,
  }
  if holds_given(q, c) then
    return c.reply
  end
  local behind = maintain(q, c, count, thorough == '1')
  if behind and thorough == '1' then
    return { q.now, 0 }
  elseif part == 'live' and not read_limits(q, c, opening) then
    return { q.now, Reply.DELETED }
  end
  Choose.rows(q, c)
  Choose.keep_allowed(q, c)
  Deliver.lease(q, c)
  if c.by_rate and #c.chosen > 0 then
    Rates.spend(q, c.by_rate, #c.chosen)
  end
  if part == 'live' then
    wake_next(q, c, patience, alarmed)
  end
  if #c.chosen == 0 and c.capacity > 0 and (behind or #c.rows > 0 and part ~= 'live' and thorough == '1') then
    c.reply[2] = 0
  end
  if c.gathering then
    c.reply[2] = Reply.GATHERED .. ' ' .. c.reply[2]
  end
  return c.reply
end
