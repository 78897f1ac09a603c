-- The record of a redrive: the request, as JSON, under its id, and what changes, under "id name". All redrives are
-- in one hash, so that an ack can count for any of them without another key.
Redrive.KEPT = 604800000 -- milliseconds for which a redrive is remembered when it does not run: a week
local CHANGING = {
  'state', 'why', 'eligible', 'position', 'moved', 'gone', 'expired', 'refused', 'undone', 'latest', 'next', 'passed',
  'acked', 'died', 'acked_before', 'died_before', 'ended', 'returned', 'leased',
}
local TEXTS = { 'part', 'chosen', 'by', 'user', 'cause', 'to', 'how' } -- fields of the request
local NUMBERS = { 'rate', 'canary', 'min_success', 'ttl' }
local POLL = 500 -- milliseconds between two checks of a canary
local SAMPLE = 20 -- ends by which a redrive without a canary is judged
local BURST = 1000 -- milliseconds: a rate that was unused for longer is lost

-- Whether these fields, from the first on, are of this type.
local function are(kind, found, names, first)
  for n = first, #names do
    if type(found[names[n]]) ~= kind then
      return false
    end
  end
  return true
end

-- The fields of `redrives` that hold what changes of a redrive.
local function fields_of(job)
  local names = {}
  for n, name in ipairs(CHANGING) do
    names[n] = job .. ' ' .. name
  end
  return names
end

-- A redrive, with the defaults of what an earlier version did not write; nil: it does not exist, or is damaged.
function Redrive.read(q, job)
  local names = fields_of(job)
  local cells = redis.call('HMGET', q.redrives, job, unpack(names))
  local found = Values.json(cells[1] or '')
  found.ttl, found.to, found.how = found.ttl or 0, found.to or '', found.how or '' -- an earlier version may have begun it
  for n, name in ipairs(CHANGING) do
    found[name] = tonumber(cells[n + 1] or 0) or cells[n + 1]
  end
  local is_whole = are('string', found, TEXTS, 1) and are('number', found, NUMBERS, 1)
  return is_whole and are('number', found, CHANGING, 3) and found or nil -- the first two are texts
end

-- Writes what has changed of a redrive.
function Redrive.write(q, job, changes)
  local cells = {}
  for name, value in pairs(changes) do
    cells[#cells + 1], cells[#cells + 2] = job .. ' ' .. name, value
  end
  redis.call('HSET', q.redrives, unpack(cells))
end

-- The redrive that moved a message back, by the fields of its state; nil: none, or it has died since.
function Redrive.of(more)
  local at = more:find(' redrive=', 1, true) -- a pattern would be tried at each byte
  return at and more:match('^ redrive=([^/ ]+)/', at)
end

-- Counts, for a redrive, the outcome of a message that it moved back: acked or died. Not counted if the redrive has been
-- forgotten.
function Redrive.count(q, job, what)
  if redis.call('HEXISTS', q.redrives, job .. ' ' .. what) == 1 then
    redis.call('HINCRBY', q.redrives, job .. ' ' .. what, 1)
  end
end

-- Removes the record of a redrive. The list of its ids expires.
function Redrive.forget(q, job)
  local names = fields_of(job)
  redis.call('HDEL', q.redrives, job, job .. ' score', job .. ' member', job .. ' last_score', job .. ' last_member')
  redis.call('HDEL', q.redrives, unpack(names))
  redis.call('ZREM', q.redriving, job)
end

-- Records an act on a redrive, and the progress of the redrive.
--   did: started, paused, resumed, cancelled, undone or done; by, user: as in Audit.note
function Redrive.note(q, job, redrive, did, by, user)
  Audit.note(
    q, did, by, user, 'job', job,
    'chosen', redrive.chosen, 'how', redrive.how, 'eligible', redrive.eligible, 'moved', redrive.moved,
    'gone', redrive.gone, 'expired', redrive.expired, 'refused', redrive.refused, 'acked', redrive.acked,
    'died', redrive.died, 'undone', redrive.undone, 'leased', redrive.leased
  )
end

-- Stops a redrive: it is done, paused or cancelled. Maintenance forgets it after a week.
--   why: of a pause: success, or the operator, as JSON; by: the operator, as JSON; user: the Redis user
function Redrive.stop(q, job, r, state, why, by, user)
  redis.call('ZADD', q.redriving, q.now + Redrive.KEPT, job)
  redis.call('PEXPIRE', q.redrive, Redrive.KEPT)
  Redrive.write(q, job, { state = state, why = why })
  Redrive.note(q, job, r, state, by, user)
end

-- The end of a step of a redrive: records its progress, and that it is done if no messages are left. Returns after how many
-- milliseconds it may continue, or STOPPED.
--   moved: how many were moved back in this step; grace: milliseconds until maintenance checks it
function Redrive.stepped(q, job, r, moved, over, grace)
  local wait = 0
  r.moved = r.moved + moved
  if r.rate > 0 then
    r.next = r.next + moved * 1000 / r.rate
    wait = math.max(0, math.ceil(r.next - q.now))
  end
  Redrive.write(q, job, {
    position = r.position, moved = r.moved, gone = r.gone, expired = r.expired, refused = r.refused,
    leased = r.leased, next = r.next, passed = r.passed,
  })
  redis.call('PEXPIRE', q.redrive, Redrive.KEPT)
  if over then
    Redrive.stop(q, job, r, 'done', '', r.by, r.user)
    return Reply.STOPPED
  end
  redis.call('ZADD', q.redriving, q.now + math.max(wait, grace), job)
  return wait
end

-- Whether a message of the canary has not ended, or may not have: the next check continues where this one ended, since
-- messages that were not moved back are also in the list.
local function has_open(q, job, r)
  local ids = redis.call('LRANGE', q.redrive, r.ended, r.ended + Bounds.ROWS - 1)
  local open
  for n, text in ipairs(#ids > 0 and redis.call('HMGET', q.states, unpack(ids)) or {}) do
    open = open or text and text:find(' redrive=' .. job .. '/', 1, true) and n
  end
  r.ended = r.ended + (open and open - 1 or #ids)
  Redrive.write(q, job, { ended = r.ended })
  return open or #ids > 0 and r.ended < r.position
end

-- How many messages a redrive may move back now, and after how many milliseconds it may continue; nil: too few succeed.
local function room_and_wait(q, job, r, limit)
  local acked = r.acked - r.acked_before
  local ends = acked + r.died - r.died_before
  local failing = acked / ends < r.min_success -- a product would not be exact: 0.55 * 100 > 55. Not for 0 / 0
  local room = limit
  if r.canary > 0 and r.passed == 0 then
    room = math.min(limit, r.canary - r.moved)
    if room <= 0 and has_open(q, job, r) then
      return 0, POLL
    elseif room <= 0 and (failing or acked == 0) then
      return 0, nil
    elseif room <= 0 then
      r.passed, room = 1, limit
    end
  elseif failing and ends >= SAMPLE then
    return 0, nil
  end
  if r.rate > 0 then
    local is_far = r.next > q.now + 1000 / r.rate + 1 -- no step leaves such a time: the clock stepped back
    r.next = is_far and q.now or math.max(r.next, q.now - BURST)
    local due = math.floor((q.now - r.next) * r.rate / 1000) + 1
    if due < 1 then
      return 0, math.ceil(r.next - q.now)
    end
    room = math.min(room, due)
  end
  return room, 0
end

-- The same; STOPPED in place of nil: it is paused now.
function Redrive.room(q, job, r, limit, grace)
  local room, wait = room_and_wait(q, job, r, limit)
  if not wait then
    local by = r.canary > 0 and r.passed == 0 and '"its canary"' or '"its min_success"'
    Redrive.stop(q, job, r, 'paused', 'success', by, '')
    return 0, Reply.STOPPED
  elseif room == 0 then
    redis.call('ZADD', q.redriving, q.now + math.max(wait, grace), job)
  end
  return room, wait
end

-- Whether a cell is a score.
local function is_score(cell)
  local score = tonumber(cell)
  return score ~= nil and score == score -- NaN
end

-- The rows that a redrive of all messages has still to take: up to the row that was last when it began. nil: it takes the
-- messages of its list; false: its record is damaged, and Redis would refuse these scores.
function Redrive.range(q, job)
  local found = redis.call(
    'HMGET', q.redrives, job .. ' score', job .. ' member', job .. ' last_score', job .. ' last_member'
  )
  if not found[3] then
    return nil
  end
  local score, last_score = found[1] or '-inf', found[3]
  local range = { score = score, member = found[2] or '', last_score = last_score, last_member = found[4] or '' }
  return is_score(score) and is_score(last_score) and range
end

-- Numbers a message that is dead again with an old time of death, after an undo or an import (redrives.lua).
function Redrive.mark_returned(q, state)
  q.returned = q.returned or redis.call('HINCRBY', q.counters, 'returned', 1)
  state.more = State.with(state.more, 'returned', q.returned)
end

-- Whether a dead letter returned since a redrive began (Redrive.mark_returned).
--   r: the redrive, from Redrive.read
function Redrive.returned_since(r, state)
  return tonumber(state.more:match(' returned=(%d+)') or 0) > r.returned
end

-- Returns a dead letter or an expired message to its queue: due now, a fresh budget, the history kept.
--   row: its row in the index `source`; how.by: the operator; how.cause: cells of a cause
--   how.job: the redrive that does it; nil: none. A field of the state names it until the message dies again, with the
--   values that an undo needs:
--     redrive=job/reason/death/charged/delay/deliveries[/expiry]
--   how.expires: nil: never; how.record: replaces its own; nil: it stays as it was; how.due: a time; nil: now
function Redrive.bring_back(q, id, state, head, source, row, how)
  local record = how.record
  History.remember_expiry(q, id, state)
  History.remember(q, id, 'redriven', State.attempts(state), 0, how.by, how.cause) -- first: a full server refuses it
  if state.part == 'dead' then
    Groups.ungroup(q, state, row)
    state.more = State.without(state.more, 'group')
  end
  if how.job then
    local was = { how.job, state.reason, state.due, state.charged, state.delay, state.deliveries }
    was[#was + 1] = state.more:match(' expires=(%d+)')
    state.more = State.with(state.more, 'redrive', table.concat(was, '/'))
  end
  state.more = State.with(State.without(state.more, 'returned', 'struck'), 'expires', how.expires)
  if record then
    record = Record.with_priority(record, head.priority)
    state.more = Record.with_head(state.more, record)
    redis.call('HSET', q.messages, id, record)
  end
  Gathers.note_end(q, id, state.more, 'redriven') -- it is open again
  state.part, state.reason, state.due = 'live', '', how.due or q.now
  state.charged, state.delay, state.redriven = 0, 0, state.redriven + 1
  Places.leave(q, id, source, row, Places.put(q, id, state, head, how.due and true))
  redis.call('HINCRBY', q.counters, 'redriven', 1)
  Outcomes.note(q, 'redriven', id, head, state, 0, { consumer = how.by })
end
