-- The mutable half of a message: one line of text, and the truth about where the message is; the sorted sets are indexes of
-- it. Absent until the message is claimed or delayed, unless its record is long.
--   part[/reason] (+|-)token due deliveries charged nacked lapsed released redriven delay{ name=value}
-- part: live, dead or expired; +token holds it, -token held it last (so that a repeated call is recognized, I12); due: when
-- it becomes ready, or when it died; 0: when it was born; delay: of the last redelivery, milliseconds; name=value: head
-- (Record.word), rest (Places.put), expires (State.redriven_expiry), untried (State.attempts), passed_on (`pass_on`),
-- uncharged (Judge), or a field that this version does not have, kept as it is. A field that is missing has its default.
local STATE = '^(%a+)/?(%a*) ([+-])(%S*) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)(.*)$'
local MORE = ' [%w_]+=%S*'
local LATER = 2 ^ 42 -- milliseconds: no score has room for a later time (Order), so another program wrote that

function State.new(due)
  return {
    part = 'live', reason = '', mark = '-', token = '', due = due, delay = 0, more = '',
    deliveries = 0, charged = 0, nacked = 0, lapsed = 0, released = 0, redriven = 0,
  }
end

function State.parse(text, birth)
  local s = State.new(math.floor(birth / 4096))
  local part, reason, mark, token, due, deliveries, charged, nacked, lapsed, released, redriven, delay, more
  if text then
    part, reason, mark, token, due, deliveries, charged, nacked, lapsed, released, redriven, delay, more =
      text:match(STATE)
  end
  if part and (more == '' or more:gsub(MORE, '') == '') then
    s.part, s.reason, s.mark, s.token = part, reason, mark, token
    local at = tonumber(due)
    s.due = at > 0 and at < LATER and at or s.due
    s.deliveries, s.charged, s.nacked = tonumber(deliveries), tonumber(charged), tonumber(nacked)
    s.lapsed, s.released, s.redriven = tonumber(lapsed), tonumber(released), tonumber(redriven)
    s.delay, s.more = tonumber(delay), more
  end
  return s
end

function State.format(s)
  local part = s.reason == '' and s.part or s.part .. '/' .. s.reason
  return table.concat({
    part, s.mark .. s.token, s.due, s.deliveries, s.charged, s.nacked, s.lapsed, s.released, s.redriven, s.delay,
  }, ' ') .. s.more
end

-- When a message expires, if it does. A death ends the time to live: a redriven message does not expire again, unless the
-- redrive gave it another one (State.redriven_expiry).
function State.expiry_of(head, state)
  if state.redriven == 0 then
    return head.expires
  end
  return tonumber(state.more:match(' expires=(%d+)') or nil)
end

-- The fence (I2): only the token that holds a message may settle it.
function State.holds(token, text)
  return text and text:find(' +' .. token .. ' ', 1, true) ~= nil
end

-- How often a message was attempted: its deliveries, except those that were given back before the holder began. The state
-- counts these in its field untried=N (State.count_untried).
local function untried(state)
  return tonumber(state.more:match(' untried=(%d+)') or 0)
end

function State.attempts(state)
  return math.max(state.deliveries - untried(state), 0)
end

-- Counts that a holder gave a message back before it began (State.attempts).
function State.count_untried(state)
  local count = string.format(' untried=%.0f', untried(state) + 1)
  state.more = state.more:gsub(' untried=%S*', '') .. count
end

-- Forgets that a message was passed on, and how often in a row it failed uncharged (Judge): its holder has begun it, or it
-- is buried or moved.
function State.taken_up(state)
  state.more = state.more:gsub(' passed_on=%S*', ''):gsub(' uncharged=%S*', '')
end

-- The fields of a state (State) with the time when the redriven message expires; nil: never.
function State.with_expiry(more, expires)
  return more:gsub(' expires=%S*', '') .. (expires and string.format(' expires=%.0f', expires) or '')
end

-- When a redriven message expires; nil: never. A field of the state holds it (State.with_expiry), since a death ends the
-- time to live in the record.
--   ttl: milliseconds; 0: none; -1: it keeps the one that it was sent with, or that another redrive gave it since
function State.redriven_expiry(q, ttl, head, state)
  if ttl < 0 then
    return tonumber(state.more:match(' expires=(%d+)') or nil) or head.expires
  end
  return ttl > 0 and q.now + ttl or nil
end

-- Matches a state line (State) of a message whose lease has lapsed before; captures how often it was charged.
State.LAPSED_BEFORE = '^%a+/?%a* [+-]%S* %d+ %d+ (%d+) %d+ [1-9]'
