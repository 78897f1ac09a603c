-- The breaker of a dependency: failures of the messages that need it open it, and are not charged then; successes close it.
--
-- A breaker is for a dependency, not for a queue or a key: one that stops a queue stops unrelated work, one by key has to
-- open for each tenant apart.
--
-- - The charges are taken back: the first failures came before the breaker opened. A message that died in that window
--   stays dead, and `stats().dead` names it: a dead letter may have been seen, moved or redriven.
-- - A claim parks the messages that it meets, once each, so a breaker opens in a millisecond, however many messages wait.
local MOST_REFUNDS = 3 -- of charges, of one message
local READ, REFUNDED, NAMED = 1000, 200, 100 -- rows, of all dependencies; messages; letters
local MOST = 2100 -- passes; Gates.drain gives no more
local UNCHARGED = '^%S+ %S+ %d+ %d+ 0 ' -- the state of a message that was not charged

-- When the dependency of a queue counts as down; milliseconds. A damaged setting never opens the breaker.
--   breaker.distinct: so many different messages failed within breaker.within, and at least this share of all attempts:
--   breaker.share; breaker.probe: until the first probe; breaker.longest: the longest time between two probes
function Breaker.rule(said)
  return {
    distinct = tonumber(said:match('^distinct=(%d+) ') or nil) or math.huge,
    within = tonumber(said:match(' within=(%d+)ms') or nil) or 0,
    share = tonumber(said:match(' share=([%d.]+)') or nil) or 1,
    probe = tonumber(said:match(' probe=(%d+)ms') or nil) or 1000,
    longest = tonumber(said:match(' longest_probe=(%d+)ms') or nil) or 30000,
  }
end

-- Takes back the charges for failures that were not the message's own fault (I4); at most three times until it is redriven,
-- so that bad messages do not live on refunds. Returns whether it is dead.
--   since: when the signs began
local function refund(q, id, since)
  local state = State.read(q, id)
  if not state then
    return false
  end
  local last, charged, refunds = Signs.struck(state.more)
  if state.part == 'live' and last and last >= since and charged > 0 and refunds < MOST_REFUNDS then
    state.charged = math.max(0, state.charged - charged)
    state.more = Signs.with_struck(state.more, last, 0, refunds + 1)
    redis.call('HSET', q.states, id, State.format(state))
  end
  return state.part == 'dead'
end

-- The newest messages that failed, by their rows; and the rows.
local function newest(q, name, since)
  local rows, ids = {}, {}
  for _, row in ipairs(redis.call('ZRANGE', q.failures, '+inf', since, 'BYSCORE', 'REV', 'LIMIT', 0, READ)) do
    if #ids < REFUNDED and row:sub(1, #name + 1) == name .. ' ' then
      rows[#rows + 1], ids[#ids + 1] = row, row:sub(#name + 2)
    end
  end
  return ids, rows
end

-- Opens the breaker of a dependency: claims park its messages from now. The charges of the newest failures are refunded
-- first: if cut off here, the next failure opens it. Passes end: the success of a leased message proves nothing.
--   since: when the signs began; id: a message that needs it; error: the newest, cells of a cause
local function open(q, number, since, id, error)
  local ids, rows = newest(q, Values.digits(number), since)
  local dead, died = {}, 0
  for _, failed in ipairs(ids) do
    if refund(q, failed, since) then
      died = died + 1
      dead[#dead + 1] = died <= NAMED and failed or nil
    end
  end
  local name = Record.text_in(redis.call('HGET', q.messages, id) or '', 'dependency')
  local lane = Lanes.read(q, number) or { of = 'dependency', name = name }
  lane.open, lane.probes, lane.wait, lane.probe = q.now, 0, 2 * q.breaker.probe, q.now + q.breaker.probe
  lane.drains, lane.drain, lane.idle, lane.hung = nil, nil, nil, nil
  lane.dead, lane.died, lane.error = died > 0 and dead or nil, died > 0 and died or nil, error
  local passes = redis.call('ZRANGEBYSCORE', q.seats, number, number .. Lanes.TRIED, 'LIMIT', 0, MOST)
  for n, member in ipairs(passes) do
    passes[n] = member:sub(2)
  end
  if #passes > 0 then
    Seats.end_passes(q, passes)
  end
  Lanes.write(q, number, lane)
  if #rows > 0 then
    redis.call('ZREM', q.failures, unpack(rows))
  end
  Audit.note(q, 'opened', '"breaker"', '', 'chosen', 'dependency ' .. lane.name)
  return lane.name
end

-- A failure, or a lapse, of a message that needs a closed dependency is neither charged nor delayed. If the message had a
-- pass, it goes behind the others of its lane, so that bad messages do not fail every probe.
function Breaker.spare(q, id, number, failure)
  failure.charge, failure.delay, failure.excused = false, 0, true
  if redis.call('ZSCORE', q.seats, Lanes.PASS .. id) then
    failure.waits_at = Lanes.BLOCKED + number + 0.5 -- Lanes.TRIED
  end
end

-- Counts a failure as a sign; returns how much of its charges may be refunded.
local function count_sign(q, id, tally, failure, last, charged)
  tally.signs = tally.signs or Signs.read(q, tally.name)
  tally.ids[#tally.ids + 1] = id
  tally.since = math.min(tally.signs.run.began, q.now - q.breaker.within)
  Signs.count_failure(q, tally.signs, id, not last)
  if not tally.opens and Signs.is_down(q, tally.signs) then
    tally.opens, failure.opened = id, Record.text_in(redis.call('HGET', q.messages, id) or '', 'dependency')
  end
  if tally.opens then
    failure.charge, failure.delay, failure.excused = false, 0, true
  end
  return (last and last >= tally.since and charged or 0) + (failure.charge and 1 or 0)
end

-- Counts the failure of a message against its dependency.
--   failure: from Judge.judge; failure.opened: the dependency whose breaker it opens
function Breaker.strike(q, id, state, head, failure)
  local number = head.needs
  local lane = Lanes.read(q, number)
  local last, charged, refunds = Signs.struck(state.more)
  local tally = q.struck[number]
    or { ids = {}, failed = 0, name = Values.digits(number), error = failure.error:match('^[^\t]*') }
  q.struck[number], tally.failed = tally, tally.failed + 1
  if Lanes.is_closed(q, number) then
    Breaker.spare(q, id, number, failure)
  elseif q.breaker.distinct < math.huge and not (lane and lane.trusts and lane.trusts > q.now) then
    charged = count_sign(q, id, tally, failure, last, charged)
  else
    return
  end
  state.more = Signs.with_struck(state.more, q.now, charged, refunds)
end

-- Once all messages of a call are judged: writes the signs that Breaker.strike has counted, and opens the breakers of
-- dependencies that are down. While one comes back, each failure gives one message more a pass.
function Breaker.note_strikes(q)
  for dependency, tally in pairs(q.struck) do -- as Breaker.strike leaves them
    local lane = Lanes.read(q, dependency)
    if tally.signs then
      Signs.note_failures(q, tally.name, tally.ids)
      Signs.write(q, tally.name, tally.signs)
    end
    if tally.opens then
      open(q, dependency, tally.since, tally.opens, tally.error)
      redis.call('HDEL', q.runs, tally.name)
      redis.call('HDEL', q.strikes, tally.name)
    elseif lane and lane.open then
      lane.error = tally.error
      Lanes.write(q, dependency, lane)
    elseif lane and lane.drains and not lane.paused then
      Gates.drain(q, dependency, lane, tally.failed)
    end
  end
end

-- Reads acked messages before they are removed: how many needed each dependency, and of these how many succeeded at their
-- first attempts; and for each dependency that is down, whether one of them was a probe.
--   most: as in Acks.remove
function Breaker.successes(q, ids, texts, gated, most)
  local times, firsts, needs, probed = {}, {}, {}, {}
  for n, id in ipairs(ids) do
    local number = Record.needs_of(q, id, texts[n])
    if number then
      times[number], needs[n] = (times[number] or 0) + 1, number
      if texts[n]:find(UNCHARGED) and not texts[n]:find(' struck=', 1, true) then
        firsts[number] = (firsts[number] or 0) + 1
      end
    end
  end
  for n, dependency in pairs(gated and needs or {}) do
    local lane = not probed[dependency] and Lanes.read(q, dependency)
    local pass = lane and lane.open and redis.call('ZSCORE', q.seats, Lanes.PASS .. ids[n])
    probed[dependency] = probed[dependency] or pass or nil
  end
  return { times = times, firsts = firsts, probed = probed, gated = gated, most = most }
end

-- Counts the successes of dependencies that have failed lately, and ends their runs. Returns the name of a dependency whose
-- breaker that closed; nil: of none.
function Breaker.count_successes(q, successes)
  local back
  for dependency, times in pairs(successes.times) do
    local name = Values.digits(dependency)
    redis.call('HDEL', q.runs, name)
    local firsts = successes.firsts[dependency]
    if firsts and redis.call('HEXISTS', q.strikes, name) == 1 then
      Signs.add_to_window(q, name, Signs.read_window(q, name), 0, firsts)
    end
    if successes.gated then
      local lane = Lanes.read(q, dependency)
      if lane and (lane.open and successes.probed[dependency] or lane.drains) then
        back = Gates.come_back(q, dependency, lane, times, successes.most) or back
      end
    end
  end
  return back
end
