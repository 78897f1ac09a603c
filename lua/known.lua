-- Messages that are sent under an id that the queue knows.
local FIELDS = Record.FIELDS
local ABOVE, TRANSIENT = 0x40, 0x80 -- the flags after FIELDS
local LONGEST = 65535 -- bytes of fields and headers

-- The lane of the key that a payload has.
local function lane_in(payload)
  return payload:byte(1) % ABOVE >= FIELDS and Record.lanes_in(payload, 2) or nil
end

-- Where the fields of a block end and its headers begin, which are JSON.
local function past_fields(text, at, stop)
  while at < stop and text:byte(at) < 0x20 do
    local high, low = text:byte(at + 1, at + 2)
    at = low and at + 3 + high * 256 + low or stop
  end
  return math.min(at, stop)
end

-- The fields, the headers and the body of a record, or of a payload, whose flags are at `at`; an expiry may follow them.
local function parts_of(text, at)
  local flags = text:byte(at)
  local first = at + (flags % (2 * Record.EXPIRES) >= Record.EXPIRES and 7 or 1)
  local high, low = text:byte(first, first + 1)
  if flags % ABOVE < FIELDS or not low then
    return '', '', text:sub(first)
  end
  local stop = first + 2 + high * 256 + low
  local headers = past_fields(text, first + 2, stop)
  return text:sub(first + 2, headers - 1), text:sub(headers, stop - 1), text:sub(stop)
end

-- A record with the priority, the headers and the body of another send. Its birth and its fields stay, and whether it is
-- kept when it fails.
--   record: of eight bytes at least; payload: as it is sent; expires: a time; nil: never
function Known.replaced(record, payload, expires)
  local flags, own, headers, body = payload:byte(1), parts_of(payload, 1)
  local block = parts_of(record, 8) .. headers
  if #block > LONGEST then
    block = own .. headers
  end
  flags = flags % Record.EXPIRES + (flags % TRANSIENT >= ABOVE and ABOVE or 0)
    + (record:byte(8) >= TRANSIENT and TRANSIENT or 0)
  flags = flags + (expires and Record.EXPIRES or 0) + (block ~= '' and FIELDS or 0)
  return record:sub(1, 7) .. string.char(flags) .. (expires and Values.packed(expires, 6) or '')
    .. (block ~= '' and Values.packed(#block, 2) .. block or '') .. body
end

-- The fields of a state with a word for results, which an ack looks for (Acks.remove).
function Known.linked(more)
  return more:find(' result=', 1, true) and more or more .. ' result=0'
end

-- The place of a message, its birth, and whether it has the key that the payload has; then its state and head, nil: only a
-- later version can read it.
function Known.place_of(q, id, payload)
  local text = redis.call('HGET', q.states, id)
  local head, later = Record.head_of(q, id, text)
  if later then
    return text and text:find(' %+%S+ ') and Reply.LEASED or Reply.LATER, 0, true
  end
  local state, has_key = State.parse(text, head.birth), head.lane == lane_in(payload)
  if state.mark == '+' then
    return Reply.LEASED, head.birth, has_key, state, head
  elseif state.part ~= 'live' then
    return state.part, head.birth, has_key, state, head
  end
  local waits = redis.call('ZSCORE', q.scheduled, Order.member_of(id, head, state.due))
  return waits and Reply.SCHEDULED or Reply.READY, head.birth, has_key, state, head
end

-- Adds to the reply of a send, and returns it, the items that it found known, each with the word for where its message is:
-- READY, SCHEDULED, LEASED, DEAD, EXPIRED, ACKED or LATER; then '/' and its birth, 0: unknown; then '/key' if the message
-- has another key than the item. Those that dead letters block are counted.
--   items: id, payload, … from `first` on; existing: as in Send.existing; false: an earlier item of this call has the id,
--   and is written
function Known.add(q, reply, known, items, first, existing)
  local blocked = 0
  for at, n in ipairs(known) do
    local place, birth, has_key = Reply.ACKED, tonumber(existing[n]) or 0, true
    if existing[n] ~= true and type(existing[n]) ~= 'number' then
      place, birth, has_key = Known.place_of(q, items[first + 2 * n - 2], items[first + 2 * n - 1])
    end
    reply[2 * at], reply[2 * at + 1] = n, place .. string.format('/%.0f', birth) .. (has_key and '' or '/key')
    blocked = blocked + (place == Reply.DEAD and 1 or 0)
  end
  if blocked > 0 then
    redis.call('HINCRBY', q.counters, 'known', blocked)
  end
  return reply
end
