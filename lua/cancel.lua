-- A message is cancelled: removed, even while a call handles it. Until the call or its lease ends, it keeps its seat, and
-- counts against `max_in_flight`.
--
-- There is no state "cancelled" that other verbs would have to handle: a settlement finds nothing, as after a purge. Three
-- things are kept until the call has ended:
--
-- - The seat of its key, as a member of `seats` that names the token, since the id may be sent again. A settlement gives
--   it back (Cancel.finish_call), or the lapse of the lease, or `tend`. An extension keeps the lease for it.
-- - That it counts against `max_in_flight`: likewise a member of `seats`, whose score is no lane. Claims look for such
--   members while the setting `cancelling` says so, and drop those without a lease (Cancel.count_calls). A limit that is
--   set after the cancel does not count the call.
-- - The lease, as long as either of these: the claim still counts the message.
local READ = 100 -- such calls that one claim checks (I9)
local CANCELLED = Reply.CANCELLED

-- The member of `seats` that is the seat of such a call: an ordered key never runs two. No id begins with this byte.
local function cancelled_seat(id, token)
  return '\2' .. token .. ' ' .. id
end

-- The member of `seats` by which such a call counts against `max_in_flight`. No id begins with this byte.
local function cancelled_in_flight(id, token)
  return '\3' .. token .. ' ' .. id
end

-- Keeps the seat of a call whose message is cancelled, and counts the call. Returns whether it has a seat or counts.
function Cancel.keep_call(q, id, token)
  local seat, in_flight = q.set.per_key and redis.call('ZSCORE', q.seats, id), q.set.max_in_flight
  if seat then
    redis.call('ZADD', q.seats, seat, cancelled_seat(id, token)) -- in place of its own, so that no seat becomes free
    redis.call('ZREM', q.seats, id)
  end
  if in_flight then
    redis.call('HSET', q.settings, 'cancelling', 1) -- first: a claim that finds no such call removes it
    redis.call('ZADD', q.seats, Lanes.IN_FLIGHT, cancelled_in_flight(id, token))
  end
  return seat or in_flight
end

-- Whether a call runs whose message was cancelled: it counts against `max_in_flight`, or its seat is taken.
function Cancel.call_runs(q, id, token)
  local kept = redis.call('ZMSCORE', q.seats, cancelled_in_flight(id, token), cancelled_seat(id, token))
  return kept[1] or kept[2], kept[1], kept[2]
end

-- Ends a call whose message was cancelled, or its lease: it no longer counts, and its seat is given back. Returns whether
-- it had either; if so, the claim holds one message fewer.
function Cancel.finish_call(q, id, token)
  local runs, in_flight, seat = Cancel.call_runs(q, id, token)
  if in_flight then
    redis.call('ZREM', q.seats, cancelled_in_flight(id, token))
  end
  if seat then
    Seats.vacate(q, { cancelled_seat(id, token) })
  end
  return runs and true or false
end

-- How many calls of cancelled messages count against `max_in_flight`. One without a lease is removed; and one whose message
-- is still held, since the cancel was cut off. If none is left, claims look for none.
function Cancel.count_calls(q)
  local count = redis.call('ZCOUNT', q.seats, Lanes.IN_FLIGHT, Lanes.IN_FLIGHT)
  for _, in_flight in ipairs(redis.call('ZRANGEBYSCORE', q.seats, Lanes.IN_FLIGHT, Lanes.IN_FLIGHT, 'LIMIT', 0, READ)) do
    local token, id = in_flight:match('^.(%S+) (.*)$')
    if not redis.call('ZSCORE', q.leases, token) or State.holds(token, redis.call('HGET', q.states, id)) then
      redis.call('ZREM', q.seats, in_flight)
      count = count - 1
    end
  end
  if count == 0 then
    redis.call('HDEL', q.settings, 'cancelling')
  end
  return count
end

-- The state, the birth and the head of a message that can be cancelled; otherwise the word of the reply, and the birth.
--   meant: the birth of the send; 0: the newest
local function cancellable(q, id, meant)
  local state, head, later = State.read(q, id)
  if later then
    return Reply.LATER, 0, nil
  elseif not head or meant > 0 and meant ~= head.birth then
    local birth = Results.acked_before(q, id, meant, head and head.birth)
    return birth and Reply.ACKED or Reply.UNKNOWN, birth or meant, nil
  end
  if state.part ~= 'live' then
    return state.part, head.birth, nil
  elseif state.mark == '+' and (redis.call('HGET', q.claims, state.token) or ''):find('^[^\n]*\tbatch') then
    return Reply.BATCH, head.birth, nil
  end
  return state, head.birth, head
end

-- Removes a message that is cancelled, and counts it.
--   consumer: the one that holds it, as JSON; nil: it waits
function Cancel.remove(q, id, state, head, consumer)
  Gathers.note_end(q, id, state.more, 'cancelled')
  if Again.is_asked(state.more) then
    redis.call('HDEL', q.again, id)
  end
  Places.drop(q, { id })
  if not consumer then
    local row = Order.member_of(id, head, state.due)
    Places.leave(q, id, redis.call('ZSCORE', q.scheduled, row) and q.scheduled or q.ready, row)
  end
  redis.call('HINCRBY', q.counters, 'cancelled', 1)
  Outcomes.note(q, 'cancelled', id, head, state, 0, { consumer = consumer })
end

-- The reply of a cancel that was done before, from its note.
local function noted_before(noted)
  local word, birth, token, holder = noted:match('^%d+ (%S+) (%d+) (%S*) (.*) %d*$')
  -- of a later call, if this one arrives late: no caller reads that
  return { word or Reply.UNKNOWN, birth or '0', token or '', holder or '' }
end

-- Cancels a message: it is removed, and counted. A dead or expired message stays, and so does one in a batch of Spark,
-- whose claims are settled as a whole. Returns CANCELLED; or where the message stays: DEAD, EXPIRED, BATCH, LATER; or it is
-- not here: ACKED, UNKNOWN. Then the birth of the send that this is about, 0: unknown; then, if the message was being
-- processed, its token and its holder, as JSON.
-- drains
function Verbs.cancel(q, ARGV)
  local number, id, act, meant = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]) -- act: as in Audit.note_act
  local done, noted = Register.done_before(q, number)
  if done then
    return noted_before(noted)
  end
  local state, born, head = cancellable(q, id, meant)
  local birth = Values.digits(born)
  if not head then
    return { state, birth, '', '' }
  end
  local held = state.mark == '+'
  local token, consumer = held and state.token or '', held and Leases.holder(q, state.token) or ''
  local stays = held and Cancel.keep_call(q, id, token)
  Cancel.remove(q, id, state, head, held and consumer or nil)
  if held and not stays then
    Leases.take_off(q, { [token] = 1 })
  end
  Audit.note_once(q, act)
  Register.note_done(q, number, 1, table.concat({ CANCELLED, birth, token, consumer, '' }, ' '))
  return { CANCELLED, birth, token, consumer }
end
