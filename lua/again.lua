-- One more run of a leased message follows: it was sent again in the meantime (resend.lua). Its state has the birth of that
-- run, `again=BIRTH`, and always `result=`, since an ack looks for no other word (Acks.remove). `again` has the newest of
-- these sends, for each id:
--   6 bytes  when it is due; 0: at once
--   6 bytes  when it expires; 0: never
--   1 byte   1: its result was asked for; 0: it was not
--   …        the payload
-- If the run is acked, the message is put back as new. If not, its next attempt is the run that was asked for.
local HEAD = 13

-- Asks for one more run of a leased message.
--   due, expires: times; nil: at once, never; asked: whether its result was asked for
function Again.ask(q, id, payload, state, due, expires, asked)
  if not Again.is_asked(state.more) then -- first: without the word, nothing is found that a cut-off call left
    state.more = Known.linked(state.more) .. ' again=' .. Values.digits(Send.first_birth(q, 1))
    redis.call('HSET', q.states, id, State.format(state))
  end
  local times = Values.packed(due or 0, 6) .. Values.packed(expires or 0, 6)
  redis.call('HSET', q.again, id, times .. (asked and '1' or '0') .. payload)
end

-- Whether one more run was asked for, so that the message stays after an ack.
--   text: its state, or the fields of that
function Again.is_asked(text)
  return text:find(' again=', 1, true) ~= nil
end

-- What was asked for: the payload; when it is due and when it expires, nil: at once, never; and whether its result is kept.
-- nil: it is not there.
local function asked_for(q, id)
  local entry = redis.call('HGET', q.again, id)
  if not entry then
    return nil
  end
  local due, expires = Values.unpacked(entry:byte(1, 6)), Values.unpacked(entry:byte(7, 12))
  return entry:sub(HEAD + 1), due > 0 and due or nil, expires > 0 and expires or nil, entry:sub(HEAD, HEAD) == '1'
end

-- The fields of a state without the word for another run.
local function without_word(more)
  local gathers = more:find(' gather=', 1, true) or more:find(' unique=', 1, true)
  return State.without(more, 'again', not gathers and more:find(' result=0', 1, true) and 'result' or nil)
end

-- Gives a held message that was not acked what was asked for: its next attempt is that run. State and head change with it.
function Again.take_up(q, id, state, head)
  if not Again.is_asked(state.more) then
    return
  end
  local payload, _, expires, asked = asked_for(q, id)
  local record = redis.call('HGET', q.messages, id)
  if payload and #record >= 8 then
    record = Known.replaced(record, payload, expires)
    redis.call('HSET', q.messages, id, record) -- first: cut off after this, the next call finds it done
    redis.call('HDEL', q.again, id)
  end
  local now = Record.read(record)
  head.birth, head.priority, head.expires, head.lane, head.needs = now.birth, now.priority, now.expires, now.lane, now.needs
  if asked and state.more:find(' result=0', 1, true) then
    state.more = State.with(state.more, 'result', Values.digits(head.birth))
  end
  state.more = Record.with_head(without_word(state.more), record)
  if state.redriven > 0 then
    state.more = State.with(state.more, 'expires', head.expires)
  end
end

-- The record of the run, whether its result is kept, and when it is due; nil: nothing was asked for. If an ack was cut off,
-- the message has that record already.
local function record_of(q, id, born)
  local payload, due, expires, asked = asked_for(q, id)
  if payload then
    local head = string.char(payload:byte(1) + (expires and Record.EXPIRES or 0))
    head = head .. (expires and Values.packed(expires, 6) or '')
    return Values.packed(tonumber(born), 7) .. head .. payload:sub(2), asked, due
  end
  local record = redis.call('HGET', q.messages, id)
  return record and Record.birth_in(record) == tonumber(born) and record or nil
end

-- Puts a message back as new whose run was acked. Returns whether it did. The state keeps the token, in `acked`
-- permanently, so that the ack can be repeated (Leases.refusal).
local function put_back(q, id, text)
  local born = text:match(' again=(%d+)')
  local record, asked, due
  if born then
    record, asked, due = record_of(q, id, born)
  end
  if not record then
    return false
  end
  local head, state, kept = Record.read(record), State.new(q.now), text:match(' unique=%d+') or ''
  if Gathers.of(text) == Gathers.THEN then
    kept = kept .. ' gather=' .. Gathers.THEN
  end
  local waits = due and due > q.now
  state.token = text:match(' %+(%S*) ')
  state.due = waits and Order.due_in(q, due - q.now, head) or q.now
  local result = asked and Values.digits(head.birth) or kept ~= '' and '0' or nil
  state.more = (result and ' result=' .. result or '') .. kept .. ' acked=' .. state.token
  redis.call('HSET', q.messages, id, record)
  redis.call('HDEL', q.history, id)
  redis.call('HDEL', q.again, id)
  if q.set.per_key then -- the others of its key are in front of it
    Seats.vacate(q, { id })
  end
  state.more = Record.with_head(state.more, record)
  Places.put(q, id, state, head, waits)
  redis.call('HINCRBY', q.counters, 'sent', 1)
  redis.call('HINCRBY', q.counters, 'again', 1)
  return true
end

-- Puts those of acked messages back of which one more run was asked for. Returns the ids of the others.
--   texts: their states
function Again.put_back(q, ids, texts)
  local others = {}
  for n, id in ipairs(ids) do
    if not put_back(q, id, texts[n]) then
      others[#others + 1] = id
    end
  end
  if #others < #ids then
    Queue.wake(q)
  end
  return others
end
