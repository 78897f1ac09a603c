-- The mutable half of a message: one line of text, and the truth about where the message is (the sorted
-- sets are indexes of it). Absent until someone claims or delays the message.
--   part[/reason] (+|-)token due deliveries charged nacked lapsed released redriven delay
-- part: live, dead or expired; +token holds it, -token held it last (so that a repeated call is known, I12);
-- due: its time to be ready, or of its death, 0: when it was born; delay: the last redelivery's, milliseconds.
local STATE = '^(%a+)/?(%a*) ([+-])(%S*) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$'
local LATER = 2 ^ 42 -- milliseconds: a time that no place has room for (lib/place), so it is a stranger's word

local function new_state(due)
  return {
    part = 'live', reason = '', mark = '-', token = '', due = due, delay = 0,
    deliveries = 0, charged = 0, nacked = 0, lapsed = 0, released = 0, redriven = 0,
  }
end

local function parse_state(text, birth)
  local s = new_state(math.floor(birth / 4096))
  local part, reason, mark, token, due, deliveries, charged, nacked, lapsed, released, redriven, delay
  if text then
    part, reason, mark, token, due, deliveries, charged, nacked, lapsed, released, redriven, delay =
      text:match(STATE)
  end
  if part then
    s.part, s.reason, s.mark, s.token = part, reason, mark, token
    local at = tonumber(due)
    s.due = at > 0 and at < LATER and at or s.due
    s.deliveries, s.charged, s.nacked = tonumber(deliveries), tonumber(charged), tonumber(nacked)
    s.lapsed, s.released, s.redriven = tonumber(lapsed), tonumber(released), tonumber(redriven)
    s.delay = tonumber(delay)
  end
  return s
end

local function format_state(s)
  local part = s.reason == '' and s.part or s.part .. '/' .. s.reason
  return table.concat({
    part, s.mark .. s.token, s.due, s.deliveries, s.charged, s.nacked, s.lapsed, s.released, s.redriven, s.delay,
  }, ' ')
end

-- A death ends the time to live: what was redriven does not expire again.
local function expiry_of(head, state)
  return state.redriven == 0 and head.expires or nil
end
