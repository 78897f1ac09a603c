-- Messages that are sent under an id that the queue knows.
local FIELDS = Record.FIELDS
local ABOVE = 0x40 -- the flag after FIELDS

-- The lane of the key that a payload has.
local function lane_in(payload)
  return payload:byte(1) % ABOVE >= FIELDS and Record.lanes_in(payload, 2) or nil
end

-- The place of a message, its birth, and whether it has the key that the payload has.
local function place_of(q, id, payload)
  local text = redis.call('HGET', q.states, id)
  local head, later = Record.head_of(q, id, text)
  if later then
    return text and text:find(' %+%S+ ') and Reply.LEASED or Reply.LATER, 0, true
  end
  local state, has_key = State.parse(text, head.birth), head.lane == lane_in(payload)
  if state.mark == '+' then
    return Reply.LEASED, head.birth, has_key
  elseif state.part ~= 'live' then
    return state.part, head.birth, has_key
  end
  local waits = redis.call('ZSCORE', q.scheduled, Order.member_of(id, head, state.due))
  return waits and Reply.SCHEDULED or Reply.READY, head.birth, has_key
end

-- Adds to the reply of a send, and returns it, the items that it found known, each with the word for where its message is: READY, SCHEDULED,
-- LEASED, DEAD, EXPIRED or ACKED; LATER if only a later version can tell; then '/' and its birth, 0: unknown; then '/key'
-- if the message has another key than the item. Those that dead letters block are counted.
--   items: id, payload, … from `first` on; existing: as in Send.add; false: an earlier item of this call has the id, and is
--   written
function Known.add(q, reply, known, items, first, existing)
  local blocked = 0
  for at, n in ipairs(known) do
    local place, birth, has_key = Reply.ACKED, tonumber(existing[n]) or 0, true
    if existing[n] ~= true and type(existing[n]) ~= 'number' then
      place, birth, has_key = place_of(q, items[first + 2 * n - 2], items[first + 2 * n - 1])
    end
    reply[2 * at], reply[2 * at + 1] = n, place .. string.format('/%.0f', birth) .. (has_key and '' or '/key')
    blocked = blocked + (place == Reply.DEAD and 1 or 0)
  end
  if blocked > 0 then
    redis.call('HINCRBY', q.counters, 'known', blocked)
  end
  return reply
end
