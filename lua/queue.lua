-- The queue of a call: a table of its keys by name, such as `q.ready`. What a call reads once, or remembers to its end, is
-- also a field of it, which is made when it is first asked for:
--   now: the time in milliseconds
--   set: settings, false where absent; set.gated: whether a lane is special (Lanes.are_special)
--   rule: the rule for keys (Lanes.rule); breaker: when a dependency counts as down (Breaker.rule)
--   a table of FIRST; a key that few calls use, from KEYS
-- A verb adds what all its functions may need, such as `q.seed`.
local NONE = {} -- rare keys of another queue: all of its keys are bound

-- The time.
local function now()
  return Clock.read()
end

-- The settings that rare ways need.
local function set(q)
  local found = redis.call(
    'HMGET', q.settings, 'redelivery', 'dead_letter', 'outcomes', 'per_key', 'breaker', 'gated', 'rate', 'limited',
    'narrowed', 'max_in_flight'
  )
  local per_key, breaker, gated = found[4], found[5], found[6]
  return {
    redelivery = found[1], dead_letter = found[2], outcomes = found[3], per_key = per_key, breaker = breaker,
    gated = Lanes.are_special(per_key, breaker, gated), rate = found[7], limited = found[8], narrowed = found[9],
    max_in_flight = found[10], numbered = Lanes.are_numbered(gated),
  }
end

-- The rule for keys.
local function rule(q)
  return Lanes.rule(q.set.per_key or '')
end

-- When a dependency counts as down.
local function breaker(q)
  return Breaker.rule(q.set.breaker or '')
end

-- A table for what the functions of a call remember.
local function empty()
  return {}
end

-- The tables: lanes that the call read; holders and names of consumers; groups that it cleared; failures by lanes; the last
-- scores in `ready`, and their whole parts; the seats that the call gave (Seats.given).
local FIRST = {
  now = now, set = set, rule = rule, breaker = breaker, lanes_read = empty, holders = empty, names = empty,
  cleared_now = empty, struck = empty, next_scores = empty, next_wholes = empty, seats_given = empty,
}

-- The value of a field of the queue that is asked for the first time.
local function first_asked(q, name)
  local at, first, value = q.rare[name], FIRST[name], nil
  if at then
    value = q.KEYS[at]
  elseif first then
    value = first(q)
  end
  q[name] = value
  return value
end

-- The metatable of a queue.
--   q.rare: the positions in KEYS of the keys that are bound when they are first asked for
Queue.MEMORY = { __index = first_asked }

-- Whether the queue is the one that the client opened, and not deleted since. An empty `opening`: the client cannot tell.
function Queue.is_open(q, opening)
  return opening == '' or redis.call('HGET', q.settings, 'opening') == opening
end

-- Puts one token on the list, never more. It wakes one waiting client, whose claim passes it on if messages are left.
function Queue.wake(q)
  if redis.call('LLEN', q.wake) == 0 then
    redis.call('LPUSH', q.wake, 1)
    -- a client claims before it waits, so the token may expire; none is left behind (I13)
    redis.call('PEXPIRE', q.wake, 5000)
  end
end

-- Another queue of the same call, which has the same time.
function Queue.beside(q, keys)
  keys.now, keys.rare = q.now, NONE
  return setmetatable(keys, Queue.MEMORY)
end
