-- Cancels a message: it is removed, and counted. A message that is being processed is removed immediately, so its holder
-- can no longer settle it; its seat, and its place under `max_in_flight`, stay taken until the holder's call or its lease has
-- ended (lib/end_cancelled). A dead or expired message stays, and so does one in a batch of Spark, whose claims are settled
-- as a whole. Returns the outcome: cancelled; or where the message stays: dead, expired, batch, later (a form of a later
-- version); or acked, unknown: it is not here. Then the birth of the send that this is about, 0: unknown; then, if the
-- message was being processed, its token and its holder, as JSON.
-- drains
local number, id, act, meant = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]) -- act: as in lib/note_act; meant: lib/own_end
-- needs: register, done
if done then
  local word, birth, token, holder = register:match('^%d+ (%S+) (%d+) (%S*) (.*) %d*$')
  return { word or 'unknown', birth or '0', token or '', holder or '' } -- of a later call, if this one arrives late: no caller reads that
end
-- needs: head_of, parse_state, member_of, setting, drop, leave, let_go, holder, outcome, note_once, note_done, cancelled_seat
-- needs: keys: states, scheduled, ready, claims, seats, settings, counters
local text, is_keyed = redis.call('HGET', states, id), setting('per_key')
local head, later = head_of(id, text)
if later then
  return { 'later', '0', '', '' }
elseif not head or meant > 0 and meant ~= head.birth then
  -- needs: acked_before
  local birth = acked_before(id, meant, head and head.birth)
  return { birth and 'acked' or 'unknown', string.format('%.0f', birth or meant), '', '' }
end
local state, birth = parse_state(text, head.birth), string.format('%.0f', head.birth)
local held = state.mark == '+'
if state.part ~= 'live' then
  return { state.part, birth, '', '' }
elseif held and (redis.call('HGET', claims, state.token) or ''):find('^[^\n]*\tbatch') then
  return { 'batch', birth, '', '' }
end
local token, consumer = held and state.token or '', held and holder(state.token) or ''
local seat = held and is_keyed and redis.call('ZSCORE', seats, id)
if seat then
  redis.call('ZADD', seats, seat, cancelled_seat(id, token)) -- in place of its own, so that no seat becomes free
  redis.call('ZREM', seats, id)
end
local place = held and setting('max_in_flight')
if place then
  -- needs: cancelled_place, PLACES
  redis.call('HSET', settings, 'cancelling', 1) -- first: a claim that finds no place removes it
  redis.call('ZADD', seats, PLACES, cancelled_place(id, token))
end
drop({ id })
if not held then
  local row = member_of(id, head, state.due)
  leave(id, redis.call('ZSCORE', scheduled, row) and scheduled or ready, row)
elseif not (seat or place) then
  let_go({ [token] = 1 })
end
redis.call('HINCRBY', counters, 'cancelled', 1)
outcome('cancelled', id, head, state, 0, { consumer = held and consumer or nil })
note_once(act)
note_done(1, table.concat({ 'cancelled', birth, token, consumer, '' }, ' '))
return { 'cancelled', birth, token, consumer }
