-- The queue's rule for messages with a key: how many of a lane may hold a seat at a time, when one gives its seat back
-- before it is gone, and how often one is handed out. A rule that cannot be read counts as off: no message waits for
-- another.
--   per_key: order, order hold, limit N or fair N, each perhaps followed by rate R (lib/interval_of); rate R; off: no
--   longer a rule, and messages may still be blocked
--   rule.limit: seats of a lane; rule.of_each: a lane may have a limit of its own (lib/limit_of); rule.in_order: a seat is
--   kept until the message is gone or dead; rule.holds: even by a dead letter;
--   rule.in_turn: a seat is given back when the message is handed out; rule.interval: milliseconds from one that is handed
--   out to the next; nil: keys have no rate
-- needs: setting, interval_of
-- gives: rule
local per_key_text = setting('per_key') or ''
local mode, rate = per_key_text:match('^(.-) ?rate (%S+)$')
local word, detail = (mode or per_key_text):match('^(%a*) ?(%w*)$')
local interval = rate and interval_of(rate)
local seats_of_lane = (word == 'limit' or word == 'fair') and tonumber(detail) or (word == 'order' or mode == '') and 1 or 0
local is_read = seats_of_lane > 0 and (interval or not rate)
local rule = {
  limit = is_read and seats_of_lane or math.huge, of_each = is_read and word == 'limit',
  in_order = word == 'order', holds = word == 'order' and detail == 'hold', in_turn = word == 'fair' or mode == '',
  interval = is_read and interval or nil,
}
