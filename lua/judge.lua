-- The judgement on a message that failed, lapsed or expired: when it is redelivered, and where it ends.
--
-- `nack` and the sweep of a lapsed lease call the same function, Judge.judge: it counts, and then the message is dead,
-- expired or redelivered. The policy is read from the queue's `settings` at each judgement, so a change applies to
-- queued messages; the client's own applies if the queue has none. The same arithmetic is in `rq_dlq/policy`.
--
-- A message that is both exhausted and expired is dead. If a redelivery would come after the end of the ttl, the message
-- expires at once. A death ends the ttl: a redriven message does not expire again, unless the redrive gives it one.
-- Retention goes by the time of death, the score in the index, so a change applies to existing dead letters, too.
--
-- - Suspects: a worker holds up to a hundred messages, one of which may have killed it, and all would be dead after a few
--   crashes if all were charged. So in a worker's claim the first lapse of a message is forgiven: it is counted in
--   `lapsed`, not in `charged`, and the message is back at its old position. Then it is a suspect, permanently, and claimed
--   alone (choose.lua): its next lapse is its own. A consumer that claims without a worker works on all it holds, so a
--   lapse charges all.
-- - A lapse of a batch is never charged, and makes no suspects: the driver was down, and no handler failed. Charged, two
--   outages would kill every message of a stream; as suspects, workers would take a thousand of them one at a time. The
--   query finds the message that makes a batch fail (rq_dlq/spark/halving.py).
-- - Failures without a charge: no budget ends them. So those in a row are counted (`uncharged`), and each waits twice as
--   long as the one before. A charge, a release, a death, a redrive and a move begin the row anew. `nacked - charged`
--   would be wrong after a redrive, and after a breaker has taken charges back. rq_dlq/core/settling lists the ways
--   without a charge.
local SHORTEST = 1000 -- milliseconds that a dead letter rests after a failure
local FIRST, LONGEST = 1000, 600000 -- milliseconds, of failures that are not charged

-- The queue's settings for messages that die or expire; an empty table if there are none.
function Judge.read_strategy(q)
  return Values.json(q.set.dead_letter)
end

-- Whether this many charged failures are more than the policy in Redis allows now. If that policy cannot be read, there is
-- no limit here: the next failure is judged by the default policy.
function Judge.is_spent(q, charged)
  if q.allowed == nil then
    local policy = Policy.read(q.set.redelivery or q.default_policy)
    q.allowed = policy and policy.max_redeliveries or false
  end
  return type(q.allowed) == 'number' and charged > q.allowed
end

-- The only way into the dead-letter queue and the expiry queue. The settings may send expired messages to the dead letters,
-- or discard messages, which is counted (I14). Returns where the message went.
--   detail: for the outcome history (Outcomes.note)
function Judge.bury(q, id, state, head, part, reason, detail)
  q.strategy = q.strategy or Judge.read_strategy(q)
  local strategy = q.strategy
  local ends_as = strategy[part]
  if ends_as ~= 'dead' and ends_as ~= 'discard' then
    ends_as = part
  end
  if ends_as == 'dead' and head.transient and strategy.transient == 'discard' then
    ends_as = 'discard'
  end
  Gathers.note_end(q, id, state.more, ends_as == 'discard' and 'discarded' or ends_as)
  redis.call('HINCRBY', q.counters, reason, 1)
  state.reason = reason
  State.taken_up(state)
  if ends_as == 'discard' then
    redis.call('HINCRBY', q.counters, 'discarded', Places.drop(q, { id }))
    local job = Redrive.of(state.more) -- otherwise Places.put counts it
    if job then
      Redrive.count(q, job, 'died')
    end
  else
    state.part, state.due = ends_as, q.now
    Places.put(q, id, state, head)
  end
  Outcomes.note(q, reason == 'expired' and 'expired' or 'dead', id, head, state, 0, detail)
  if ends_as == 'discard' then
    Outcomes.note(q, 'discarded', id, head, state, 0, detail)
    return Reply.DISCARDED
  end
  return ends_as == 'dead' and Reply.DEAD or Reply.EXPIRED
end

-- Keeps a dead letter or an expired message that failed where it is. It rests before a claim hands it out again
-- (Choose.rows), so that it is not redelivered immediately each time.
local function keep(q, id, state, head, delay, failure)
  state.delay = math.max(delay, SHORTEST)
  History.remember_expiry(q, id, state)
  History.remember(q, id, 'kept', State.attempts(state), state.delay, failure.consumer, failure.error)
  Places.put(q, id, state, head, nil, q.now + state.delay)
  Outcomes.note(q, 'kept', id, head, state, state.delay, failure)
  return Reply.KEPT .. ' ' .. Values.digits(state.delay)
end

-- A number in [-1, 1) for the spread of a delay. The client draws one a call; steps of the golden ratio spread a batch
-- evenly.
local function draw(q)
  q.drawn = q.drawn and (q.drawn + 0.6180339887498949) % 1 or tonumber(q.seed)
  return 2 * q.drawn - 1
end

-- Whether this version can read the policy: a kind that a later version introduced is not read as the default.
function Judge.can_judge(q)
  if q.redelivery == nil then
    local policy, later = Policy.read(q.set.redelivery)
    q.redelivery = policy or not later and Policy.read(q.default_policy)
  end
  return q.redelivery ~= false
end

-- How often in a row a message failed uncharged.
local function uncharged(state)
  return tonumber(state.more:match(' uncharged=(%d+)') or 0)
end

-- The delay of a failure that is not charged: 1 s at first, twice as long each time in a row, 10 minutes at most, spread as
-- the policy says, and never less than the policy's delay. A second or more that the caller asked for stays as it is.
--   count: of these failures, with this one; asked: by the caller, milliseconds; nil: by none; delay: without this rule
local function uncharged_delay(q, count, asked, delay)
  local spread, r = q.redelivery.collision_avoidance, draw(q)
  if asked and asked >= FIRST then
    return asked
  end
  local growth = { arithmetic = 'rq', initial_delay = FIRST, multiplier = 2, max_delay = LONGEST }
  growth.collision_avoidance = spread
  return math.max(Policy.delay(growth, count, r), asked and 0 or delay)
end

-- The delay of the next delivery.
--   in_a_row: how often in a row the message failed uncharged; false: it is charged
local function delay_of(q, state, failure, in_a_row)
  local delay = failure.delay or Policy.delay(q.redelivery, math.max(state.charged, 1), draw(q), state.delay)
  delay = in_a_row and uncharged_delay(q, in_a_row, failure.delay, delay) or delay
  return delay >= 0 and math.min(delay, Values.TEN_YEARS) or 0 -- with a damaged policy it may be NaN
end

-- Decides the outcome of a message that failed: redelivered by the policy, dead, or expired (I5, I6, I7). Returns it: DEAD,
-- EXPIRED, DISCARDED, REDELIVERED <delay>, or KEPT <delay> (in its dead-letter queue; without a delay after a lapse).
--   event: nacked, lapsed or, for a dead letter, poisoned; failure.excused: its dependency is down
function Judge.judge(q, id, state, head, event, failure)
  local over = state.part ~= 'live' -- a dead-letter queue has no dead-letter queue: it stays where it is
  if over and event == 'lapsed' then
    Places.put(q, id, state, head)
    return Reply.KEPT
  end
  local counted = event == 'poisoned' and 'nacked' or event
  state[counted] = state[counted] + (failure.of_batch and 0 or 1) -- or a batch's lapse would make suspects of its messages
  state.charged = state.charged + (failure.charge and 1 or 0)
  redis.call('HINCRBY', q.counters, counted, '1')
  failure.cause = event
  local limit = q.redelivery.max_redeliveries
  local spent = not over and type(limit) == 'number' and state.charged > limit
  local in_a_row = event == 'nacked' and not (failure.charge or failure.excused or over) and uncharged(state) + 1
  local delay = spent and 0 or delay_of(q, state, failure, in_a_row)
  if over then
    return keep(q, id, state, head, delay, failure)
  end
  History.remember(q, id, event, State.attempts(state), delay, failure.consumer, failure.error)
  local expiry = State.expiry_of(head, state)
  if spent then
    return Judge.bury(q, id, state, head, 'dead', 'exhausted', failure)
  elseif expiry and q.now + delay >= expiry then
    return Judge.bury(q, id, state, head, 'expired', 'expired', failure)
  end
  state.delay = failure.forgiven and state.delay or delay -- the next delay may grow from it
  State.taken_up(state)
  state.more = state.more .. (in_a_row and string.format(' uncharged=%.0f', in_a_row) or '')
  if delay > 0 then -- without a delay it returns to its old position (I8)
    state.due = Order.due_in(q, delay, head)
  end
  Places.put(q, id, state, head, failure.waits_at or delay > 0)
  Outcomes.note(q, 'redelivered', id, head, state, delay, failure)
  return Reply.REDELIVERED .. ' ' .. Values.digits(delay)
end
