-- Decides the outcome of a message that failed: redelivered by the policy, dead, or expired (I5, I6, I7). The policy is the
-- one in Redis, so every sweep judges a lapse as the consumer would.
-- needs: read_policy, setting, put, policy_delay, remember, expiry_of, bury, due_in, now, outcome, attempts, taken_up
-- needs: uncharged, uncharged_delay; keys: counters; args: seed, default_policy
-- gives: judge, can_judge
local TEN_YEARS = 315360000000 -- milliseconds; no delay is longer
local redelivery, drawn

-- The client draws one number a call; steps of the golden ratio from there spread a batch evenly over [-1, 1).
local function draw()
  drawn = drawn and (drawn + 0.6180339887498949) % 1 or tonumber(seed)
  return 2 * drawn - 1
end

-- Whether this version can read the policy: a kind that a later version introduced is not read as the default.
local function can_judge()
  if redelivery == nil then
    local stands, later = read_policy(setting('redelivery'))
    redelivery = stands or not later and read_policy(default_policy)
  end
  return redelivery ~= false
end

-- event: nacked, lapsed or, for a dead letter, poisoned. failure.excused: its dependency is down. Returns the outcome: dead, expired, discarded, redelivered
-- <delay>, or kept <delay> (in its dead-letter queue; without a delay after a lapse).
local function judge(id, state, head, event, failure)
  local over = state.part ~= 'live' -- a dead-letter queue has no dead-letter queue: it stays where it is
  if over and event == 'lapsed' then
    put(id, state, head)
    return 'kept'
  end
  local counted = event == 'poisoned' and 'nacked' or event
  state[counted] = state[counted] + (failure.of_batch and 0 or 1) -- or a batch's lapse would make suspects of its messages
  state.charged = state.charged + (failure.charge and 1 or 0)
  redis.call('HINCRBY', counters, counted, 1)
  failure.cause = event
  local limit = redelivery.max_redeliveries
  local spent = not over and type(limit) == 'number' and state.charged > limit
  local in_a_row = event == 'nacked' and not (failure.charge or failure.excused or over) and uncharged(state) + 1
  local delay = 0
  if not spent then
    delay = failure.delay or policy_delay(redelivery, math.max(state.charged, 1), draw(), state.delay)
    delay = in_a_row and uncharged_delay(in_a_row, failure.delay, delay, redelivery.collision_avoidance, draw()) or delay
    delay = delay >= 0 and math.min(delay, TEN_YEARS) or 0 -- with a damaged policy it may be NaN
  end
  if over then
    -- needs: keep
    return keep(id, state, head, delay, failure)
  end
  remember(id, event, attempts(state), delay, failure.consumer, failure.error)
  local expiry = expiry_of(head, state)
  if spent then
    return bury(id, state, head, 'dead', 'exhausted', failure)
  elseif expiry and now + delay >= expiry then
    return bury(id, state, head, 'expired', 'expired', failure)
  end
  state.delay = failure.forgiven and state.delay or delay -- the next delay may grow from it
  taken_up(state)
  state.more = state.more .. (in_a_row and string.format(' uncharged=%.0f', in_a_row) or '')
  if delay > 0 then -- without a delay it returns to its old position (I8)
    state.due = due_in(delay, head)
  end
  put(id, state, head, failure.place or delay > 0)
  outcome('redelivered', id, head, state, delay, failure)
  return 'redelivered ' .. delay
end
