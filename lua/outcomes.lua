-- The outcome history of a queue.
local ENDS = { -- events that end a message, or its time as a dead letter
  dead = true, expired = true, discarded = true, purged = true,
  cancelled = true, moved = true, undone = true, redriven = true,
}

-- Adds an entry, whose fields follow. A write that fails stops nothing.
--   most: about how many entries stay; nil: the history is not trimmed
local function add(q, most, ...)
  if most then
    redis.pcall('XADD', q.outcomes, 'MAXLEN', '~', most, '*', ...)
  else
    redis.pcall('XADD', q.outcomes, '*', ...)
  end
end

-- The same from the values. All entries have the same fields, so that Redis stores their names once.
local function write(q, most, event, id, birth, age, attempt, delay, consumer, error, fingerprint, reason, cause)
  add(
    q, most, 'id', id, 'event', event, 'attempt', attempt, 'age', age, 'delay', delay, 'consumer', consumer, 'error', error,
    'fingerprint', fingerprint, 'reason', reason, 'cause', cause, 'birth', birth
  )
end

-- How old a message is that was born then, milliseconds.
local function age_of(q, born)
  return Values.digits(math.max(q.now - born, 0))
end

-- The name of a consumer.
--   consumer: as JSON text
local function name_of(q, consumer)
  local names = q.names
  names[consumer] = names[consumer] or Values.json('[' .. consumer .. ']')[1] or ''
  return names[consumer]
end

-- Writes an event to the outcome history, if the settings turn that on. It is written after it has happened. An event that
-- ends a message whose result was asked for is also kept as its outcome (Results.keep).
--   delay: milliseconds until the redelivery
--   detail: { cause, consumer, error }, those that are known; the last two as in History.remember
function Outcomes.note(q, event, id, head, state, delay, detail)
  local kept, asked = q.set.outcomes, ENDS[event] and state.more:find(' result=[^0]')
  if not (kept or asked) then
    return
  end
  local birth = Values.digits(head.birth)
  if asked then
    local word = event == 'undone' and state.part or event
    local cause = detail and detail.error and detail.error:match('^[^\t]*') or ''
    Results.keep(q, { id }, word, { event ~= 'redriven' and state.reason .. '\t' .. cause }, { birth })
  end
  if not kept then
    return
  end
  detail = detail or {}
  local failure = detail.error and Values.json(detail.error:match('^[^\t]*')) or {}
  write(
    q, kept, event, id, birth, age_of(q, math.floor(head.birth / 4096)), Values.digits(State.attempts(state)),
    Values.digits(delay), name_of(q, detail.consumer or '""'), failure.type or '', failure.fingerprint or '', state.reason,
    detail.cause or ''
  )
end

-- Records acked messages in the outcome history, of which the last entry trims it.
--   births, texts: of the messages, nil: an ack was cut off, or it cannot be read; and their states before the ack
function Outcomes.note_acked(q, kept, ids, births, texts)
  local seen, alike, attempt, consumer, reason, born, age
  for n, id in ipairs(ids) do
    local birth, text = births[n], texts[n]
    if birth and text ~= seen then
      seen, text = text, text:match('^(.+ result=)%d+$') or text
      if text ~= alike then -- most messages have the same state, but for that birth
        alike = text
        local state = State.parse(seen, birth)
        attempt, reason = Values.digits(State.attempts(state)), state.reason
        consumer = name_of(q, Leases.holder(q, state.token))
      end
    end
    if birth then
      local at = (birth - birth % 4096) / 4096
      if at ~= born then -- most were sent with others
        born, age = at, age_of(q, at)
      end
      local most = n == #ids and kept or nil
      write(q, most, 'acked', id, Values.digits(birth), age, attempt, '0', consumer, '', '', reason, '')
    end
  end
end
