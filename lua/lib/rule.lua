-- What the queue's settings say of messages with a key: how many of a lane may hold a seat at a time, and when one gives its
-- seat back, beside when it is gone. What cannot be read counts as off: no message waits for another one.
--   per_key: order or order hold; limit N; fair N; off: no more, and some may be blocked
--   rule.limit: seats of a lane; rule.in_order: kept until the message is gone or dead; rule.holds: and by a dead letter;
--   rule.in_turn: given back when the message is handed out
-- needs: setting
-- gives: rule
local word, detail = (setting('per_key') or ''):match('^(%a+) ?(%w*)$')
local seats_of_lane = word == 'order' and 1 or (word == 'limit' or word == 'fair') and tonumber(detail) or 0
local rule = {
  limit = seats_of_lane > 0 and seats_of_lane or math.huge,
  in_order = word == 'order', holds = word == 'order' and detail == 'hold', in_turn = word == 'fair',
}
