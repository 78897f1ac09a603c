-- Messages are sent whose ids the queue may know: then the call says what happens to them.
local BY = '"a send"' -- who redrives, as JSON
local UNIQUE = '\1' -- precedes, in `acked_ids`, an id that is known until the time of its score; no id has this byte

-- What a call says of known messages, as `of` in these functions:
--   mode: drop, replace, debounce, redrive or again; delay, max_delay: milliseconds; expires: when they expire; nil: never
--   all_asked: whether the queue keeps the results of all messages; known_for: as in Verbs.resend

-- Whether a message has the key and the dependency that a payload has.
local function has_lanes(head, payload)
  local lane, needs, said_lane, said_needs
  if payload:byte(1) % 0x40 >= Record.FIELDS then
    lane, needs, said_lane, said_needs = Record.lanes_in(payload, 2)
  end
  return lane == head.lane and needs == head.needs and said_lane == lane and said_needs == needs
end

-- Whether the result of a message is asked for by this send.
local function asks_result(of, payload)
  return of.all_asked or payload:byte(1) % 0x40 >= Record.FIELDS and Send.asks_result(payload)
end

-- The fields of the state of a known message; its result is kept from now on if this send asks for it.
local function asking(of, payload, head, more)
  local asked = more:find(' result=[^0]') or not asks_result(of, payload)
  return asked and more or State.with(more, 'result', Values.digits(head.birth))
end

-- When a message that waits expires, if this send says: of `then` its time to live begins when it is due, as at its send.
local function expiry_of(q, of, state)
  local waits = Gathers.of(state.more) == Gathers.THEN and math.max(0, state.due - q.now) or 0
  return of.expires and of.expires + waits
end

-- Gives a message that waits the body, the headers, the priority and the time to live of a payload, and its place by that.
--   index: where it waits; due: when it is due from now on, nil: as before
local function replace(q, of, id, payload, state, head, index, due)
  local row, expires = Order.member_of(id, head, state.due), expiry_of(q, of, state)
  local score = tonumber(redis.call('ZSCORE', index, row) or nil)
  local record = redis.call('HGET', q.messages, id)
  if not score or #record < 8 then -- a call was cut off, or it is damaged
    return false
  end
  redis.call('HINCRBY', q.counters, 'replaced', 1)
  local before, is_stated = head.priority, redis.call('HEXISTS', q.states, id) == 1
  record = Known.replaced(record, payload, expires)
  head.priority, head.expires = Record.read(record).priority, expires
  state.more = Record.with_head(asking(of, payload, head, state.more), record)
  if state.redriven > 0 then
    state.more = State.with(state.more, 'expires', expires)
  end
  if not expires then
    redis.call('ZREM', q.expiring, id)
  end
  if due or head.priority ~= before then
    state.due = due or state.due
    local waits = index == q.scheduled and (not due or due > q.now) and (score < Lanes.BLOCKED or score)
    Places.leave(q, id, index, row, Places.put(q, id, state, head, waits, nil, function()
      redis.call('HSET', q.messages, id, record)
    end))
    return true
  elseif expires then
    redis.call('ZADD', q.expiring, expires, id)
  end
  redis.call('HSET', q.messages, id, record)
  if is_stated or state.more ~= '' then
    redis.call('HSET', q.states, id, State.format(state))
  end
  return true
end

-- When a message that was never handed out and is not due is due from now on, if it waits anew; otherwise nil.
local function anew(q, of, id, state, head)
  local score = tonumber(redis.call('ZSCORE', q.scheduled, Order.member_of(id, head, state.due)) or nil)
  local is_first = state.deliveries == 0 and state.redriven == 0 and Gathers.of(state.more) ~= Gathers.THEN
  if not is_first or not score or score <= q.now or score >= Lanes.BLOCKED then
    return nil
  end
  local last = math.floor(head.birth / 4096) + of.max_delay
  return Order.due_in(q, math.max(0, math.min(of.delay, last - q.now)), head)
end

-- Returns a dead or expired message with another body.
local function redrive(q, of, id, payload, part)
  local index = part == 'dead' and q.dead or q.expired
  return Choice.each(q, index, { ids = { id } }, function(_, state, head, row)
    local record = redis.call('HGET', q.messages, id)
    if #record < 8 then
      return false
    end
    record = Known.replaced(record, payload, of.expires)
    head.priority = Record.read(record).priority
    local how = { by = BY, cause = '', expires = of.expires, record = record }
    how.due = of.delay > 0 and Order.due_in(q, of.delay, head) or nil
    state.more = asking(of, payload, head, state.more)
    Redrive.bring_back(q, id, state, head, index, row, how)
  end) == 1
end

-- Whether the call says anything of a message that is there: one that waits, is over, or is leased.
local function is_meant(of, place, state)
  local mode = of.mode
  if place == Reply.READY or place == Reply.SCHEDULED then
    return mode == 'replace' or mode == 'debounce'
  elseif place == Reply.LEASED then
    return mode == 'again' and state.part == 'live'
  end
  return mode == 'redrive' -- dead or expired
end

-- Does to a known message what the call says of it. Returns what it did, as a word of the reply; nil: nothing.
local function act(q, of, id, payload, place, state, head)
  if not is_meant(of, place, state) then
    return nil
  elseif not has_lanes(head, payload) then
    return Reply.OTHER_KEY
  elseif place == Reply.LEASED then
    Again.ask(q, id, payload, state, of.delay > 0 and q.now + of.delay or nil, of.expires, asks_result(of, payload))
    return Reply.AGAIN
  elseif state.part ~= 'live' then
    return redrive(q, of, id, payload, state.part) and Reply.REDRIVEN or nil
  end
  local due = of.mode == 'debounce' and anew(q, of, id, state, head) or nil
  local index = place == Reply.READY and q.ready or q.scheduled
  return replace(q, of, id, payload, state, head, index, due) and (due and Reply.POSTPONED or Reply.REPLACED) or nil
end

-- The id is known until that time, even after its ack (Acks.remove): the state of its message says so.
local function mark(q, of, id)
  local text = redis.call('HGET', q.states, id)
  local head = not (text and text:find(' unique=', 1, true)) and Record.head_of(q, id, text)
  if head then
    local state = State.parse(text, head.birth)
    local ends = math.floor(head.birth / 4096) + of.known_for
    state.due = text and state.due or 0 -- since its birth, as in a state that says nothing else
    state.more = Known.linked(state.more) .. ' unique=' .. Values.digits(ends)
    redis.call('HSET', q.states, id, State.format(state))
  end
end

-- Does what the call says to a known message. Returns the word of the reply (Known.add), and after that what was done.
local function answer(q, of, id, payload)
  local place, birth, has_key, state, head = Known.place_of(q, id, payload)
  local did = head and act(q, of, id, payload, place, state, head)
  if of.known_for > 0 then
    mark(q, of, id)
  end
  if place == Reply.DEAD and did ~= Reply.REDRIVEN then
    redis.call('HINCRBY', q.counters, 'known', 1)
  end
  birth = did == Reply.AGAIN and 0 or birth -- that of the run is unknown yet: the newest is meant
  local word = place .. string.format('/%.0f', birth) .. (has_key and '' or '/key')
  return did and word .. '/' .. did or word
end

-- Whether an id is known after the ack of its message.
local function is_remembered(q, of, id)
  local ends = of.known_for > 0 and tonumber(redis.call('ZSCORE', q.acked_ids, UNIQUE .. id) or nil)
  return ends and ends > q.now
end

-- Divides the items of a call: the new ones, and their numbers; the numbers of those that the queue has, or that occurred
-- before; and the reply for those that it remembers.
local function divided(q, of, ARGV, first)
  local ids, fresh, numbers, known, reply, seen = {}, {}, {}, {}, { 0 }, {}
  for at = first, #ARGV, 2 do
    ids[#ids + 1] = ARGV[at]
  end
  local existing = redis.call('HMGET', q.messages, unpack(ids))
  for n, id in ipairs(ids) do
    if existing[n] or seen[id] then
      known[#known + 1] = n
    elseif is_remembered(q, of, id) then
      reply[#reply + 1], reply[#reply + 2] = n, Reply.ACKED .. '/0'
    else
      seen[id], numbers[#numbers + 1] = true, n
      fresh[#fresh + 1], fresh[#fresh + 2] = id, ARGV[first + 2 * n - 1]
    end
  end
  return fresh, numbers, known, reply
end

-- Sends the new messages of a call; those of them that Send.add finds known are added to the reply. Returns the words for
-- these, by their ids; or nil and a refusal.
local function send_new(q, of, fresh, numbers, reply, delay, ttl, opening)
  local sent, refusal = Send.add(q, fresh, 1, #fresh, delay, ttl, opening, true, Length.over)
  if not sent then
    return nil, refusal
  end
  local acked = {}
  for at = 2, #sent, 2 do
    acked[fresh[2 * sent[at] - 1]] = sent[at + 1]
    reply[#reply + 1], reply[#reply + 2] = numbers[sent[at]], sent[at + 1]
  end
  for n = 1, of.known_for > 0 and #numbers or 0 do
    if not acked[fresh[2 * n - 1]] then
      mark(q, of, fresh[2 * n - 1])
    end
  end
  reply[1] = sent[1]
  return acked
end

-- The terms of messages with this delay and ttl (Send.add): whether the queue keeps the results of all; the delay from
-- now on; and when they expire, nil: never.
local function terms(q, delay, ttl)
  local set = redis.call('HMGET', q.settings, 'expiry', 'results')
  delay, ttl = Ttl.spans(q, delay, ttl, set[1])
  return set[2] and set[2]:find('^[1-9]%d*$') and true or false, delay, ttl > 0 and q.now + math.floor(ttl) or nil
end

-- Sends messages. `mode` says what happens to a known one, if it is where that applies, and has the same key and
-- dependency. The reply is that of `send`, with more after the place of each that was changed (`answer`).
--   mode: replace: one that waits gets the new body, headers, priority and ttl; debounce: and waits for the delay anew, at
--   most until `max_delay` after its first send, if it was never handed out and is not due; redrive: a dead or expired one
--   comes back with them; again: one that is leased gets one more run with them (again.lua); drop: nothing
--   known_for: milliseconds from the first send for which the id is known, even after the ack; 0: no longer than otherwise
function Verbs.resend(q, ARGV)
  local number, delay, ttl, opening = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] -- as in Send.add
  local mode, max_delay, known_for = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
  -- items from ARGV[8]: id, payload (as of `send`)
  local done, noted = Register.done_before(q, number)
  if done then
    return Send.reply_before(noted)
  elseif not Queue.is_open(q, opening) then
    return Reply.DELETED
  elseif Ttl.is_past(q, ttl) then
    return Reply.PAST
  end
  local all_asked, wait, expires = terms(q, delay, ttl)
  local of = {
    mode = mode, delay = wait, max_delay = max_delay, known_for = known_for, expires = expires, all_asked = all_asked,
  }
  local fresh, numbers, known, reply = divided(q, of, ARGV, 8)
  local acked, refusal = {}, nil
  if fresh[1] then
    acked, refusal = send_new(q, of, fresh, numbers, reply, delay, ttl, opening)
  end
  if refusal then
    return refusal
  end
  for _, n in ipairs(known) do
    local id, payload = ARGV[6 + 2 * n], ARGV[7 + 2 * n]
    reply[#reply + 1], reply[#reply + 2] = n, acked[id] or answer(q, of, id, payload)
  end
  if known[1] then
    Queue.wake(q)
  end
  Send.note_done(q, number, reply)
  return reply
end
