-- The state and the head of a message that can be cancelled; otherwise the outcome, the birth of the send that this is
-- about, and nil.
--   meant: the birth of the send, as in Results; 0: the newest
local function cancellable(q, id, meant)
  local text = redis.call('HGET', q.states, id)
  local head, later = Record.head_of(q, id, text)
  if later then
    return 'later', 0, nil
  elseif not head or meant > 0 and meant ~= head.birth then
    local birth = Results.acked_before(q, id, meant, head and head.birth)
    return birth and 'acked' or 'unknown', birth or meant, nil
  end
  local state = State.parse(text, head.birth)
  local is_held = state.part == 'live' and state.mark == '+'
  if state.part ~= 'live' then
    return state.part, head.birth, nil
  elseif is_held and (redis.call('HGET', q.claims, state.token) or ''):find('^[^\n]*\tbatch') then
    return 'batch', head.birth, nil
  end
  return state, head.birth, head
end

-- Cancels a message: it is removed, and counted. A message that is being processed is removed immediately, so its holder
-- can no longer settle it; its seat, and its place under `max_in_flight`, stay taken until the holder's call or its lease
-- has ended (Calls.finish). A dead or expired message stays, and so does one in a batch of Spark, whose claims are
-- settled as a whole. Returns the outcome: cancelled; or where the message stays: dead, expired, batch, later (a form of a
-- later version); or acked, unknown: it is not here. Then the birth of the send that this is about, 0: unknown; then, if
-- the message was being processed, its token and its holder, as JSON.
-- drains
function Verbs.cancel(q, ARGV)
  local number, id, act, meant = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]) -- act: as in Audit.note_act
  local done, noted = Register.done_before(q, number)
  if done then
    local word, birth, token, holder = noted:match('^%d+ (%S+) (%d+) (%S*) (.*) %d*$')
    -- of a later call, if this one arrives late: no caller reads that
    return { word or 'unknown', birth or '0', token or '', holder or '' }
  end
  local state, born, head = cancellable(q, id, meant)
  local birth = Values.digits(born)
  if not head then
    return { state, birth, '', '' }
  end
  local held = state.mark == '+'
  local token, consumer = held and state.token or '', held and Leases.holder(q, state.token) or ''
  local stays = held and Calls.keep(q, id, token)
  Places.drop(q, { id })
  if not held then
    local row = Order.member_of(id, head, state.due)
    Places.leave(q, id, redis.call('ZSCORE', q.scheduled, row) and q.scheduled or q.ready, row)
  elseif not stays then
    Leases.take_off(q, { [token] = 1 })
  end
  redis.call('HINCRBY', q.counters, 'cancelled', 1)
  Outcomes.note(q, 'cancelled', id, head, state, 0, { consumer = held and consumer or nil })
  Audit.note_once(q, act)
  Register.note_done(q, number, 1, table.concat({ 'cancelled', birth, token, consumer, '' }, ' '))
  return { 'cancelled', birth, token, consumer }
end
