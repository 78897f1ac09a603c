-- Messages that their tokens hold are settled. The verdict on each is a word of Reply, perhaps with more.
local SETTLED, SETTLED_BEFORE, LOST, GONE = Reply.SETTLED, Reply.SETTLED_BEFORE, Reply.LOST, Reply.GONE
local FIRST, LONGEST, PATIENCE = 1000, 60000, 600000 -- milliseconds, of messages that are passed on
local MARKS = 144 -- bytes: 16 marks of those that passed a message on, with a dot before each

-- Settles held messages. From ARGV[first]: how many, their ids, then each token and how many of these, in a row, it holds.
-- Returns the verdicts; the ids of those that were settled, and their states before; and token → how many it no longer
-- holds, with those that were cancelled in the meantime.
--   act(id, text): settles a message, and returns its outcome, nil: SETTLED; LOST: it was left alone; nil: nothing is done
function Settle.held(q, ARGV, first, act)
  local asked = tonumber(ARGV[first])
  local lines = redis.call('HMGET', q.states, unpack(ARGV, first + 1, first + asked))
  local verdicts, ids, texts, counts, n, size = { nil }, { nil }, { nil }, {}, 0, 0
  local done = asked > 1 and {}
  for item = first + asked + 1, #ARGV, 2 do
    local token, before, seen, is_held = ARGV[item], size, nil, nil -- before: the size so far, less the cancelled messages
    local fence = State.fence(token)
    for _ = 1, tonumber(ARGV[item + 1]) do
      n = n + 1
      local id, text = ARGV[first + n], lines[n]
      if text ~= seen then -- most messages have the same state
        seen, is_held = text, text and text:find(fence, 1, true)
      end
      if done and done[id] then
        verdicts[n] = SETTLED_BEFORE
      elseif is_held then
        local verdict = act and act(id, text) or SETTLED
        verdicts[n] = verdict
        if verdict ~= LOST then
          size = size + 1
          ids[size], texts[size] = id, text
          if done then done[id] = true end
        end
      else
        verdicts[n] = Leases.refusal(q, id, token, text)
        before = before - (Cancel.finish_call(q, id, token) and 1 or 0)
      end
    end
    if size > before then
      counts[token] = (counts[token] or 0) + size - before
    end
  end
  return verdicts, ids, texts, counts
end

-- Tells with the first of these outcomes that ends a message that all children of a gather have ended.
local function tell_of_share(verdicts)
  for n, verdict in ipairs(verdicts) do
    if verdict == Reply.DEAD or verdict == Reply.EXPIRED or verdict == Reply.DISCARDED then
      verdicts[n] = verdict .. '  ' .. Reply.GATHERED .. ' '
      return
    end
  end
end

-- Settles held messages from ARGV[first] on with act(id, state, head); then calls finish(q), if any was settled; then takes
-- them off their claims. Leaves alone a message whose ack was cut off, and one of a later form. Returns the verdicts, or
-- only SETTLED if all have it.
local function settle(q, ARGV, first, act, finish)
  local verdicts, ids, _, counts = Settle.held(q, ARGV, first, function(id, text)
    local head, later = Record.held_head(q, id, text)
    if not head then
      return later and LOST or GONE
    end
    local state = State.parse(text, head.birth)
    Again.take_up(q, id, state, head)
    return act(id, state, head)
  end)
  if #ids > 0 and finish then
    finish(q)
  end
  Leases.take_off(q, counts)
  if q.share_ended then
    tell_of_share(verdicts)
  end
  for n = 1, #verdicts do
    if verdicts[n] ~= SETTLED then
      return verdicts
    end
  end
  return SETTLED
end

-- Settles messages that failed: redelivered by the policy, or after the caller's delay; dead when the budget is spent. A
-- failure may count against the dependency of its message (Breaker.strike). Returns for each the outcome and the delay, or
-- a verdict; then UNCHARGED, if it was not charged, and the dependency whose breaker it opens, if any; then, for one,
-- GATHERED, if all children of a gather have ended. LATER: the policy is of a kind that only a later version can read.
-- drains
function Verbs.nack(q, ARGV)
  local consumer, seed, default_policy = ARGV[1], ARGV[2], ARGV[3]
  local delay, charge, error = tonumber(ARGV[4]), ARGV[5] == '1', ARGV[6] -- delay: milliseconds; empty: the policy's
  local counts, pauses = ARGV[7] == '1', ARGV[8] == '1' -- counts: against the dependency; pauses: the key, for the delay
  -- items from ARGV[9]: held (Settle.held)
  q.seed, q.default_policy = seed, default_policy
  if not Judge.can_judge(q) then
    return Reply.LATER
  end
  counts = counts and (q.set.breaker or q.set.gated)
  return settle(q, ARGV, 9, function(id, state, head)
    local failure = { delay = delay, charge = charge, consumer = consumer, error = error }
    if counts and head.needs and state.part == 'live' then
      Breaker.strike(q, id, state, head, failure)
    end
    if pauses and head.lane then
      Lanes.pause_key(q, id, head, delay or 0)
    end
    local became = Judge.judge(q, id, state, head, 'nacked', failure)
    if not failure.charge then
      became = (became:find(' ') and became or became .. ' ') .. ' ' .. Reply.UNCHARGED .. ' ' .. (failure.opened or '')
    end
    return became
  end, function()
    if counts then
      Breaker.note_strikes(q)
    end
    Queue.wake(q)
  end)
end

-- Settles messages that can never succeed: they die immediately, whatever the budget. A dead letter is kept there, as after
-- a nack. Returns the outcome of each, or a verdict.
-- drains
function Verbs.poison(q, ARGV)
  local consumer, seed, default_policy = ARGV[1], ARGV[2], ARGV[3]
  local reason, error = ARGV[4], ARGV[5] -- reason: poison or unprocessable
  -- items from ARGV[6]: held (Settle.held)
  q.seed, q.default_policy = seed, default_policy
  return settle(q, ARGV, 6, function(id, state, head)
    local failure = { charge = true, cause = 'poisoned', consumer = consumer, error = error }
    if state.part == 'live' then
      History.remember(q, id, 'poisoned', State.attempts(state), 0, consumer, error)
      return Judge.bury(q, id, state, head, 'dead', reason, failure)
    elseif Judge.can_judge(q) then
      return Judge.judge(q, id, state, head, 'poisoned', failure)
    end
    Places.put(q, id, state, head) -- under a policy of a later version
    return Reply.KEPT
  end)
end

-- Gives back one message, after a delay, milliseconds.
local function give_back(q, id, state, head, delay)
  local waits = delay > 0 and state.part == 'live'
  local expiry = waits and State.expiry_of(head, state)
  state.released = state.released + 1
  redis.call('HINCRBY', q.counters, 'released', '1')
  if expiry and q.now + delay >= expiry then -- it would be due after its expiry (I7)
    return Judge.bury(q, id, state, head, 'expired', 'expired', { cause = 'released' })
  elseif waits then
    state.due = Order.due_in(q, delay, head)
  end
  local lane = Rates.slot_back(q, state, head, state.token)
  Places.put(q, id, state, head, waits, delay > 0 and state.part ~= 'live' and q.now + delay or nil)
  if lane then
    Seats.admit(q, { lane })
  end
  Outcomes.note(q, 'released', id, head, state, delay, q.set.outcomes and { consumer = Leases.holder(q, state.token) })
end

-- Gives back messages that were not handled, or should not be charged: due now, at their old position (I8), or after a
-- delay. A dead letter rests for the same time. Returns the verdicts, or only SETTLED if all have it.
-- drains
function Verbs.release(q, ARGV)
  local begun = ARGV[1] == '1' -- 0: the holder had not begun them, so they do not count as attempts (State.attempts)
  local delay = tonumber(ARGV[2]) -- milliseconds
  -- items from ARGV[3]: held (Settle.held)
  local back = {} -- token → how many of its claim
  return settle(q, ARGV, 3, function(id, state, head)
    if state.part == 'live' and q.set.rate then -- it took a token when it was handed out
      back[state.token] = (back[state.token] or 0) + 1
    end
    if begun then
      State.taken_up(state)
    else
      State.count_untried(state)
    end
    return give_back(q, id, state, head, delay)
  end, function()
    for token, count in pairs(back) do
      Rates.give_back(q, token, count)
    end
    Queue.wake(q)
  end)
end

-- Counts that a message is passed on: passed_on=UNTIL/TIMES/MARKS. Returns the milliseconds that it rests; nil: it dies
-- now.
local function count_passed_on(q, state, mark, takers)
  local ends, times, marks = state.more:match(' passed_on=(%d+)/(%d+)/(%S*)')
  ends, times, marks = tonumber(ends) or q.now + PATIENCE, tonumber(times) or 0, marks or ''
  ends = math.min(ends, q.now + PATIENCE) -- the clock may have stepped back
  if mark ~= '' and not marks:find(mark, 1, true) then
    marks = (marks .. '.' .. mark):sub(-MARKS)
  end
  local taken = false -- whether a live worker may take it: one that has not passed it on
  for taker in takers:gmatch('%S+') do
    taken = taken or not marks:find(taker, 1, true)
  end
  local rest = math.min(FIRST * 2 ^ math.min(times, 10), LONGEST)
  if not taken and ends > q.now then
    rest = math.min(rest, ends - q.now)
  end
  state.more = State.with(state.more, 'passed_on', string.format('%.0f/%.0f/%s', ends, times + 1, marks))
  return (taken or ends > q.now) and rest or nil
end

-- Settles messages that their holder does not take, since it does not have their task, or their arguments or body do not
-- fit. They rest, untried and uncharged, for another version of the program: 1 s at first, twice as long each time, 60 s at
-- most. They rest while a live worker may take them, otherwise until ten minutes after this began; then they die. Returns
-- the outcome of each, or a verdict.
-- drains
function Verbs.pass_on(q, ARGV)
  local consumer, mark, takers = ARGV[1], ARGV[2], ARGV[3] -- mark: of what the holder takes for this task; empty: nothing
  local error = ARGV[4] -- takers: the marks of live workers for it, separated by blanks
  -- items from ARGV[5]: held (Settle.held)
  return settle(q, ARGV, 5, function(id, state, head)
    if state.part ~= 'live' then -- a dead letter is not offered to another version
      Places.put(q, id, state, head)
      return Reply.KEPT
    end
    State.count_untried(state)
    local rest = count_passed_on(q, state, mark, takers)
    state.released = state.released + 1
    redis.call('HINCRBY', q.counters, 'released', '1')
    redis.call('HINCRBY', q.counters, 'passed_on', '1')
    History.remember(q, id, rest and 'passed_on' or 'poisoned', State.attempts(state), rest or 0, consumer, error)
    local failure = { cause = 'passed_on', consumer = consumer, error = error }
    local expiry = State.expiry_of(head, state)
    if not rest then
      return Judge.bury(q, id, state, head, 'dead', 'unprocessable', failure)
    elseif expiry and q.now + rest >= expiry then
      return Judge.bury(q, id, state, head, 'expired', 'expired', failure)
    end
    state.due = Order.due_in(q, rest, head)
    Places.put(q, id, state, head, true)
    Outcomes.note(q, 'passed_on', id, head, state, rest, failure)
    return Reply.PASSED_ON .. ' ' .. rest
  end, Queue.wake)
end

-- Restarts leases. A claim has one lease, so all messages that the token still holds are kept; and so is the seat of a call
-- whose message was cancelled. Returns the new deadline, then a verdict for each item, or only SETTLED if all have it.
-- drains
function Verbs.extend(q, ARGV)
  local lease, only_later = ARGV[1], ARGV[2] -- milliseconds; 1: a lease that ends later is left as it is
  -- items from ARGV[3]: held (Settle.held)
  local first, reply = 3, { q.now + lease }
  local option = only_later == '1' and 'GT' or 'CH' -- CH changes only the reply of ZADD
  local asked, n, all = tonumber(ARGV[first]), 0, true
  local texts = redis.call('HMGET', q.states, unpack(ARGV, first + 1, first + asked))
  for at = first + asked + 1, #ARGV, 2 do
    local token = ARGV[at]
    for _ = 1, tonumber(ARGV[at + 1]) do
      n = n + 1
      local id, held = ARGV[first + n], State.holds(token, texts[n])
      reply[n + 1], all = held and SETTLED or Leases.refusal(q, id, token, texts[n]), all and held
      if held or Cancel.call_runs(q, id, token) then
        redis.call('ZADD', q.leases, option, q.now + lease, token)
      end
    end
  end
  return all and { reply[1], SETTLED } or reply
end

-- Writes the progress of a call into the state of its message. The field names the delivery, so no call needs to remove it.
-- Returns a verdict.
function Verbs.progress(q, ARGV)
  local id, token, progress = ARGV[1], ARGV[2], ARGV[3] -- progress: a fraction, and a text without blanks
  local text = redis.call('HGET', q.states, id)
  if not State.holds(token, text) then
    return Leases.refusal(q, id, token, text)
  end
  local head = Record.held_head(q, id, text)
  if not head then
    return LOST
  end
  local state = State.parse(text, head.birth)
  state.more = State.with(state.more, 'progress', string.format('%d/%.0f/', state.deliveries, q.now) .. progress)
  redis.call('HSET', q.states, id, State.format(state))
  return SETTLED
end
