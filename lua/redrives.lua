-- The verbs of redrives that run step by step: begin, step, steer, undo.
--
-- A step asks what the canary and the rate allow by the server's clock, moves up to 20 messages, counts them, and says
-- when it may continue. Each leaves a mark in `redriving`: ten seconds after the last one, maintenance continues it.
--
-- - A redrive takes only messages that were dead when it began, each once: a step skips those that died later. If two
--   redrives choose the same message, one counts it as `moved` and the other as `gone`. Since the clock may step back, a
--   step also skips a letter whose history names this redrive.
-- - Undos and imports return dead letters with old times of death. So such calls are numbered, a dead letter has the
--   number of the call that returned it, and a redrive skips numbers later than the one at its start.
-- - A leased letter is left, and counted (`leased`), but not waited for: a holder may extend its lease forever. A redrive
--   of all finds a released one if it has yet to come to its position. It keeps no list, so one that was claimed after it
--   began is `gone`.
-- - The outcome is counted where it happens. A field of the state, `redrive=…`, names the redrive. `ack` looks for it
--   only in states that are longer than those of most messages, and a death removes it (`put`).
-- - A canary has ended when none of its messages has the field any more; one that is purged or moved is never acked. Then
--   the share of acks is compared with `min_success`. Without a canary a redrive is judged once 20 of its messages have
--   ended. After a resumption only messages that end from then on count.
-- - An undo takes back the messages that no consumer has received since; the field has what it restores.
local MOST = 100 -- redrives that a queue remembers
local THEN = { -- the state of a redrive after a verb, by its state before
  pause = { running = 'paused' },
  resume = { paused = 'running' },
  cancel = { running = 'cancelled', paused = 'cancelled' },
}

-- Forgets the oldest redrive that has ended. Returns whether there was one.
local function forget_oldest(q)
  for _, other in ipairs(redis.call('ZRANGE', q.redriving, 0, -1)) do
    local state = redis.call('HGET', q.redrives, other .. ' state')
    if state ~= 'running' and state ~= 'paused' then
      Redrive.forget(q, other)
      return true
    end
  end
  return false
end

-- Whether another job has carried out the plan whose register this is.
local function carried_out_by_another(q, job)
  local known = redis.call('GET', q.sender)
  return known and known ~= job and redis.call('HEXISTS', q.redrives, known) == 1
end

-- Begins a redrive of the messages of its list or, without one, of all dead or expired ones. Returns DONE, even if it had
-- begun before; or nothing was done: INCOMPLETE; FULL: too many redrives are active; NOTHING; or DONE_BEFORE: another job
-- has carried out the plan.
function Verbs.start_redrive(q, ARGV)
  local job, record, listed, gone, leased, grace = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
  local made, returned_before = ARGV[7], ARGV[8]
  -- made, returned_before: of a plan, its AT and RETURNED (choice.lua); its register then holds the job. Empty: no plan
  -- record: JSON; listed: how many ids the list holds; empty: it takes all. gone: how many of the requested ids are gone;
  -- leased: of the messages, which are left out; grace: milliseconds until maintenance continues it
  if redis.call('HEXISTS', q.redrives, job) == 1 then
    return Reply.DONE
  elseif listed ~= '' and redis.call('LLEN', q.redrive) ~= tonumber(listed) then
    return Reply.INCOMPLETE
  elseif made ~= '' and carried_out_by_another(q, job) then
    return Reply.DONE_BEFORE
  end
  local asked = Values.json(record)
  local source = asked.part == 'dead' and q.dead or q.expired
  local last = redis.call('ZRANGE', source, -1, -1, 'WITHSCORES')
  if listed == '' and not last[1] then
    return Reply.NOTHING
  end
  if redis.call('ZCARD', q.redriving) >= MOST and not forget_oldest(q) then
    return Reply.FULL
  end
  local latest = tonumber(made) or math.max(q.now, tonumber(last[2] or 0)) -- the clock may have stepped back
  local returned = tonumber(returned_before) or redis.call('HGET', q.counters, 'returned') or 0
  local eligible = listed == '' and redis.call('ZCARD', source) or listed
  redis.call('ZADD', q.redriving, q.now + grace, job)
  redis.call('PEXPIRE', q.redrive, Redrive.KEPT)
  Redrive.write(q, job, {
    state = 'running', eligible = eligible, gone = gone, leased = leased, latest = latest, next = q.now,
    acked = 0, died = 0, returned = returned,
    last_score = listed == '' and last[2] or nil, last_member = listed == '' and last[1] or nil,
  })
  if made ~= '' then
    redis.call('PSETEX', q.sender, Register.KEPT, job)
  end
  redis.call('HSET', q.redrives, job, record) -- from here on it has begun
  Redrive.note(q, job, Redrive.read(q, job), 'started', asked.by, asked.user)
  return Reply.DONE
end

-- Pauses a redrive, resumes it, or cancels it. Returns DONE; UNCHANGED: its state does not allow that; or UNKNOWN.
function Verbs.steer_redrive(q, ARGV)
  local job, verb, by, user, grace = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5] -- verb: pause, resume or cancel
  local r = Redrive.read(q, job)
  if not r then
    return Reply.UNKNOWN
  end
  local state = THEN[verb][r.state]
  if verb == 'resume' and r.state == 'running' and r.canary > 0 and r.passed == 0 then -- it waits for its canary
    state = 'running'
  end
  if not state then
    return Reply.UNCHANGED
  end
  if state == 'running' then
    redis.call('ZADD', q.redriving, q.now + grace, job)
    Redrive.write(q, job, {
      state = state, why = '', next = q.now, passed = 1, acked_before = r.acked, died_before = r.died,
    })
    Redrive.note(q, job, r, 'resumed', by, user)
  else
    Redrive.stop(q, job, r, state, state == 'paused' and by or '', by, user)
  end
  return Reply.DONE
end

-- Moves messages back. Returns for how many; the ids of these; how many had no time left; and the score, the member and the
-- leased ones of Choice.each.
local function move_back(q, job, r, chosen)
  local source, back, late = r.part == 'dead' and q.dead or q.expired, {}, 0
  local moved, score, member, leased = Choice.each(q, source, chosen, function(id, state, head, row)
    -- It died, or was dead again, after this redrive began; or this one redrove it, and the clock stepped back.
    local story = state.redriven > 0 and redis.call('HGET', q.history, id) or ''
    if state.due > r.latest or Redrive.returned_since(r, state) or story:find(r.cause, 1, true) then
      return false
    end
    local expires = State.redriven_expiry(q, r.ttl, head, state)
    if expires and expires <= q.now then
      late = late + 1
      return false
    end
    Redrive.bring_back(q, id, state, head, source, row, { by = r.by, cause = r.cause, job = job, expires = expires })
    back[#back + 1] = id
  end)
  return moved, back, late, score, member, leased
end

-- Takes the next messages of a redrive, at most `room`, from its list or from the range of all messages. Returns how many
-- were moved back, and whether none are left.
local function take_step(q, job, r, range, room)
  local ids = range and {} or redis.call('LRANGE', q.redrive, r.position, r.position + room - 1)
  local chosen = range or { ids = ids }
  chosen.limit, chosen.part = room, r.part
  local moved, back, late, score, member, leased = move_back(q, job, r, chosen)
  r.expired = r.expired + late
  if not range then
    r.position, r.leased = r.position + #ids, r.leased + leased
    r.gone = r.gone + #ids - moved - late - leased
    return moved, r.position >= r.eligible or #ids == 0
  end
  local over = score == ''
  r.gone = over and math.max(0, r.eligible - r.moved - moved - r.expired) or 0
  if not over then
    Redrive.write(q, job, { score = score, member = member })
  end
  if moved > 0 then
    redis.call('RPUSH', q.redrive, unpack(back)) -- for an undo
  end
  return moved, over
end

-- Continues a redrive: redrives its next messages, as many as it may now (Redrive.room). They are counted in the same call,
-- so any number of clients may call this. Returns how many, and after how many milliseconds it may continue, or STOPPED.
function Verbs.step_redrive(q, ARGV)
  local job, limit, grace = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
  -- grace: milliseconds until maintenance continues it, if no caller does; 0: maintenance calls, and does only due steps
  local r = Redrive.read(q, job)
  local range = r and Redrive.range(q, job)
  local at = tonumber(redis.call('ZSCORE', q.redriving, job) or 0)
  local is_far = at > q.now + 60000 -- a minute: the clock stepped back; or its rate is low, which makes it wait anyway
  local is_due = at <= q.now or is_far and r and r.state == 'running' and not r.offered
  if grace == 0 and not is_due then
    return { 0, Reply.STOPPED }
  elseif not r or range == false or r.state ~= 'running' then
    if is_due then
      Redrive.forget(q, job)
    end
    return { 0, Reply.STOPPED }
  elseif r.offered then -- only its caller can continue it (offer_redrive), and did not
    if is_due then
      Redrive.stop(q, job, r, 'cancelled', 'left', '"maintenance"', '')
    end
    return { 0, Reply.STOPPED }
  end
  local room, wait = Redrive.room(q, job, r, limit, grace)
  if room == 0 then
    redis.call('PEXPIRE', q.redrive, Redrive.KEPT)
    return { 0, wait }
  end
  local moved, over = take_step(q, job, r, range, room)
  if moved > 0 then
    Queue.wake(q)
  end
  return { moved, Redrive.stepped(q, job, r, moved, over, grace) }
end

-- Takes the messages of an index back that no consumer has touched since they were redriven. Returns how many.
local function take_back(q, job, r, index, ids, by, cause)
  return (Choice.each(q, index, { ids = ids }, function(id, state, head, row)
    local was = state.more:match(' redrive=' .. job .. '/(%S*)') or ''
    local reason, due, charged, delay, deliveries, expires = was:match('^(%a*)/(%d+)/(%d+)/(%d+)/(%d+)/?(%d*)$')
    if tonumber(deliveries) ~= state.deliveries then
      return false
    end
    state.part, state.reason, state.due = r.part, reason, tonumber(due)
    state.charged, state.delay = tonumber(charged), tonumber(delay)
    state.more = State.with(State.without(state.more, 'redrive'), 'expires', tonumber(expires))
    Redrive.mark_returned(q, state)
    Gathers.note_end(q, id, state.more, r.part)
    History.remember(q, id, 'undone', State.attempts(state), 0, by, cause)
    Places.leave(q, id, index, row, Places.put(q, id, state, head))
    Outcomes.note(q, 'undone', id, head, state, 0, { consumer = by })
  end))
end

-- Ends a redrive and takes its messages back, a chunk at a time: those that no consumer has touched are dead or expired
-- again. Returns how many of this chunk, and how many are left to check, or UNKNOWN.
function Verbs.undo_redrive(q, ARGV)
  local job, by, user, cause, limit = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
  local r = Redrive.read(q, job)
  if not r then
    return { 0, Reply.UNKNOWN }
  end
  local begins = r.state ~= 'undone'
  if begins then
    Redrive.write(q, job, { state = 'undone', why = '', position = 0 })
    redis.call('ZADD', q.redriving, q.now + Redrive.KEPT, job)
    r.position = 0
  end
  local ids = redis.call('LRANGE', q.redrive, r.position, r.position + limit - 1)
  if #ids == 0 then
    if begins then -- it had moved nothing
      Redrive.note(q, job, r, 'undone', by, user)
    end
    return { 0, 0 }
  end
  local undone = 0
  if q.set.per_key or q.set.gated then -- first the blocked ones: a seat that is given back admits the next one
    undone = take_back(q, job, r, q.scheduled, ids, by, cause)
  end
  undone = undone + take_back(q, job, r, q.ready, ids, by, cause)
  r.position, r.undone = r.position + #ids, r.undone + undone
  Redrive.write(q, job, { position = r.position, undone = r.undone })
  local left = redis.call('LLEN', q.redrive) - r.position
  if left == 0 then
    Redrive.note(q, job, r, 'undone', by, user)
  end
  return { undone, left }
end
