-- The outcome history of a queue.
local ENDS = { -- events that end a message, or its time as a dead letter
  dead = true, expired = true, discarded = true, purged = true,
  cancelled = true, moved = true, undone = true, redriven = true,
}

-- Writes an event to the outcome history, if the settings turn that on. It is written after it has happened, and a failed
-- write stops nothing. The fields are the same in every entry, so that Redis stores their names once. An event that ends a
-- message whose result was asked for is also kept as its outcome (Results.keep).
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
  local age = math.max(q.now - math.floor(head.birth / 4096), 0)
  local consumer, failure = detail.consumer or '""', detail.error and Values.json(detail.error:match('^[^\t]*')) or {}
  local names = q.names
  names[consumer] = names[consumer] or Values.json('[' .. consumer .. ']')[1] or ''
  redis.pcall(
    'XADD', q.outcomes, 'MAXLEN', '~', kept, '*', 'id', id, 'event', event, 'attempt', Values.digits(State.attempts(state)),
    'age', Values.digits(age), 'delay', Values.digits(delay), 'consumer', names[consumer],
    'error', failure.type or '', 'fingerprint', failure.fingerprint or '',
    'reason', state.reason, 'cause', detail.cause or '', 'birth', birth
  )
end

-- Records acked messages in the outcome history, from their births and their states before the ack, if these can be read.
function Outcomes.note_acked(q, ids, births, texts)
  local head, seen, state, detail = {}, nil, nil, nil -- of a head no more is needed than the birth
  for n, id in ipairs(ids) do
    head.birth = births[n]
    if head.birth and texts[n] ~= seen then -- most messages have the same state
      seen, state = texts[n], State.parse(texts[n], head.birth)
      detail = { consumer = Leases.holder(q, state.token) }
    end
    if head.birth then -- otherwise an ack was cut off
      Outcomes.note(q, 'acked', id, head, state, 0, detail)
    end
  end
end
