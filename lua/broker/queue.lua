-- The queue of a call: a table of its keys by name, such as `q.ready`. What a call reads once, or remembers to its end, is
-- also a field of it, which is made when it is first asked for:
--   now: the time in milliseconds
--   set: the settings of SETTINGS, false where absent
--   rule: the rule for keys (Lanes.rule); breaker: when a dependency counts as down (Breaker.rule) a table of READ_ONCE
-- A verb adds what all its functions may need, such as `q.seed`.
local SETTINGS = {
  'redelivery', 'dead_letter', 'outcomes', 'per_key', 'breaker', 'gated', 'rate', 'limited', 'narrowed',
  'max_in_flight',
}
-- Tables of a call: lanes that it read; holders and names of consumers; groups that it cleared; failures by lanes; the next
-- scores in `ready`.
local READ_ONCE = { lanes_read = true, holders = true, names = true, cleared_now = true, struck = true, next_scores = true }

local function settings_of(q)
  local found, set = redis.call('HMGET', q.settings, unpack(SETTINGS)), {}
  for n, name in ipairs(SETTINGS) do
    set[name] = found[n]
  end
  return set
end

local function first_asked(q, name)
  local value
  if name == 'now' then
    value = Clock.read()
  elseif name == 'set' then
    value = settings_of(q)
  elseif name == 'rule' then
    value = Lanes.rule(q.set.per_key or '')
  elseif name == 'breaker' then
    value = Breaker.rule(q.set.breaker or '')
  elseif READ_ONCE[name] then
    value = {}
  end
  q[name] = value
  return value
end

local MEMORY = { __index = first_asked }

-- The queue with these keys.
function Queue.of(keys)
  return setmetatable(keys, MEMORY)
end

-- Whether the queue is the one that the client opened, and not deleted since. An empty `opening`: the client cannot tell.
function Queue.is_open(q, opening)
  return opening == '' or redis.call('HGET', q.settings, 'opening') == opening
end

-- Puts one token on the list, never more. It wakes one waiting client, whose claim passes it on if messages are left. So no
-- client polls, and a message wakes one of a thousand.
function Queue.wake(q)
  if redis.call('LLEN', q.wake) == 0 then
    redis.call('LPUSH', q.wake, 1)
    -- a client claims before it waits, so the token may expire; none is left behind (I13)
    redis.call('PEXPIRE', q.wake, 5000)
  end
end

-- Another queue of the same call, which has the same time.
function Queue.beside(q, keys)
  keys.now = q.now
  return Queue.of(keys)
end
