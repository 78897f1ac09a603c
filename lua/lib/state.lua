-- The mutable half of a message: one line of text, and the truth about where the message is; the sorted sets are indexes of
-- it. Absent until the message is claimed or delayed, unless its record is long.
--   part[/reason] (+|-)token due deliveries charged nacked lapsed released redriven delay{ name=value}
-- part: live, dead or expired; +token holds it, -token held it last (so that a repeated call is recognized, I12);
-- due: when it becomes ready, or when it died; 0: when it was born; delay: of the last redelivery, milliseconds;
-- name=value: head (lib/head_word), rest (lib/put), expires (lib/redriven_expiry), untried (lib/attempts), passed_on
-- (pass_on.lua), uncharged (lib/uncharged), or a field that this version does not have, kept as it is. A field that is missing has its default.
-- gives: new_state, parse_state, format_state, expiry_of
local STATE = '^(%a+)/?(%a*) ([+-])(%S*) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)(.*)$'
local MORE = ' [%w_]+=%S*'
local LATER = 2 ^ 42 -- milliseconds: no score has room for a later time (lib/order), so another program wrote that

local function new_state(due)
  return {
    part = 'live', reason = '', mark = '-', token = '', due = due, delay = 0, more = '',
    deliveries = 0, charged = 0, nacked = 0, lapsed = 0, released = 0, redriven = 0,
  }
end

local function parse_state(text, birth)
  local s = new_state(math.floor(birth / 4096))
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

local function format_state(s)
  local part = s.reason == '' and s.part or s.part .. '/' .. s.reason
  return table.concat({
    part, s.mark .. s.token, s.due, s.deliveries, s.charged, s.nacked, s.lapsed, s.released, s.redriven, s.delay,
  }, ' ') .. s.more
end

-- When a message expires, if it does. A death ends the time to live: a redriven message does not expire again, unless the
-- redrive gave it another one (lib/redriven_expiry).
local function expiry_of(head, state)
  if state.redriven == 0 then
    return head.expires
  end
  return tonumber(state.more:match(' expires=(%d+)') or nil)
end
