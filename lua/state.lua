-- The mutable half of a message: one line of text, and the truth about where the message is; the sorted sets are indexes of
-- it. Absent until the message is claimed or delayed, unless its record is long.
--   part[/reason] (+|-)token due deliveries charged nacked lapsed released redriven delay{ name=value}
-- part: live, dead or expired; +token holds it, -token held it last (so that a repeated call is recognized, I12); due: when
-- it becomes ready, or when it died; 0: when it was born; delay: of the last redelivery, milliseconds; name=value: the
-- fields of lua/README.md, or one that this version does not have, kept as it is. A missing field has its default.
--
-- One HSET changes it. An index can be wrong in one direction only, by a row too many, which a reader detects.
local STATE = '^(%a+)/?(%a*) ([+-])(%S*) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)(.*)$'
local MORE = ' [%w_]+=%S*'
-- Matches the line of a message whose lease has lapsed before; captures how often it was charged.
State.LAPSED_BEFORE = '^%a+/?%a* [+-]%S* %d+ %d+ (%d+) %d+ [1-9]'
-- The line, up to the birth, of a message that was sent for its result without a delay, and was not delivered yet.
State.ASKED = 'live - 0 0 0 0 0 0 0 0 result='
local LATER = 2 ^ 42 -- milliseconds: no score has room for a later time (Order), so another program wrote that

-- The state of a message that nothing has happened to.
function State.new(due)
  return {
    part = 'live', reason = '', mark = '-', token = '', due = due, delay = 0, more = '',
    deliveries = 0, charged = 0, nacked = 0, lapsed = 0, released = 0, redriven = 0,
  }
end

-- A state from its line; without one, or if that is damaged, the state of a new message.
function State.parse(text, birth)
  local part, reason, mark, token, due, deliveries, charged, nacked, lapsed, released, redriven, delay, more
  if text then
    part, reason, mark, token, due, deliveries, charged, nacked, lapsed, released, redriven, delay, more =
      text:match(STATE)
  end
  local born = (birth - birth % 4096) / 4096
  if not part or more ~= '' and more:gsub(MORE, '') ~= '' then
    return State.new(born)
  end
  due = due + 0 -- a text and 0 are a number, in a third of the time that tonumber takes
  return {
    part = part, reason = reason, mark = mark, token = token, due = due > 0 and due < LATER and due or born,
    delay = delay + 0, more = more, deliveries = deliveries + 0, charged = charged + 0, nacked = nacked + 0,
    lapsed = lapsed + 0, released = released + 0, redriven = redriven + 0,
  }
end

-- The state and the head of a message. nil, nil if it does not exist; nil, nil, true if it is of a later form.
function State.read(q, id)
  local text = redis.call('HGET', q.states, id)
  local head, later = Record.head_of(q, id, text)
  return head and State.parse(text, head.birth), head, later
end

-- The line of a state.
function State.format(s)
  local part = s.reason == '' and s.part or s.part .. '/' .. s.reason
  local counts = string.format(' %d %d %d %d %d %d ', s.deliveries, s.charged, s.nacked, s.lapsed, s.released, s.redriven)
  return part .. ' ' .. s.mark .. s.token .. ' ' .. Values.digits(s.due) .. counts .. Values.digits(s.delay) .. s.more
end

-- When a message expires, if it does. A death ends the time to live: a redriven message does not expire again, unless the
-- redrive gave it another one (State.redriven_expiry).
function State.expiry_of(head, state)
  if state.redriven == 0 then
    return head.expires
  end
  return tonumber(state.more:match(' expires=(%d+)') or nil)
end

-- The fence (I2), a part of the state: only the token that holds a message may settle it.
function State.fence(token)
  return ' +' .. token .. ' '
end

-- Whether the token holds a message with this state.
function State.holds(token, text)
  return text and text:find(State.fence(token), 1, true) ~= nil
end

-- The fields of a state, `more`, with another value of one of them; nil: without that field.
function State.with(more, name, value)
  more = more:gsub(' ' .. name .. '=%S*', '')
  return value and more .. ' ' .. name .. '=' .. value or more
end

-- The same without fields of these names.
function State.without(more, ...)
  for _, name in ipairs({ ... }) do
    more = State.with(more, name, nil)
  end
  return more
end

-- How many deliveries of a message were given back before the holder began.
local function untried(state)
  return state.more == '' and 0 or tonumber(state.more:match(' untried=(%d+)') or 0)
end

-- How often a message was attempted: its deliveries, except those that were given back before the holder began.
function State.attempts(state)
  return math.max(state.deliveries - untried(state), 0)
end

-- Counts that a holder gave a message back before it began (State.attempts).
function State.count_untried(state)
  state.more = State.with(state.more, 'untried', untried(state) + 1)
end

-- Forgets that a message was passed on, and how often in a row it failed uncharged: it was begun, buried or moved.
function State.taken_up(state)
  if state.more ~= '' then -- as of few
    state.more = State.without(state.more, 'passed_on', 'uncharged')
  end
end

-- When a message expires that is redriven now; nil: never.
--   ttl: milliseconds; 0: none; -1: it keeps the one that it was sent with, or that another redrive gave it since
function State.redriven_expiry(q, ttl, head, state)
  if ttl < 0 then
    return tonumber(state.more:match(' expires=(%d+)') or nil) or head.expires
  end
  return ttl > 0 and q.now + ttl or nil
end
