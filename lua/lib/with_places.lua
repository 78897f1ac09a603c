-- The items that a send found known, each with the name of its message's place: ready, scheduled, leased, dead, expired or
-- acked; 'later' if only a later version can tell; then '/' and its birth, 0: unknown; then '/key' if the message has another
-- key than the item. Those that dead letters block are counted.
--   items: id, payload, … from `first` on; existing: as in lib/asked; false: an earlier item of this call has the id, and is
--   written
-- needs: head_of, parse_state, member_of, lanes_in; keys: states, scheduled, counters
-- gives: with_places
local WITH_FIELDS, OTHERS = 0x20, 0x40 -- the flag of fields and headers in a payload, and the next

local function lane_in(payload)
  return payload:byte(1) % OTHERS >= WITH_FIELDS and lanes_in(payload, 2) or nil
end

-- The place of a message, its birth, and whether it has the key that the payload has.
local function place_of(id, payload)
  local text = redis.call('HGET', states, id)
  local head, later = head_of(id, text)
  if later then
    return text and text:find(' %+%S+ ') and 'leased' or 'later', 0, true
  end
  local state, has_key = parse_state(text, head.birth), head.lane == lane_in(payload)
  if state.mark == '+' then
    return 'leased', head.birth, has_key
  elseif state.part ~= 'live' then
    return state.part, head.birth, has_key
  end
  local waits = redis.call('ZSCORE', scheduled, member_of(id, head, state.due))
  return waits and 'scheduled' or 'ready', head.birth, has_key
end

local function with_places(known, items, first, existing)
  local placed, blocked = {}, 0
  for at, n in ipairs(known) do
    local place, birth, has_key = 'acked', tonumber(existing[n]) or 0, true
    if existing[n] ~= true and type(existing[n]) ~= 'number' then
      place, birth, has_key = place_of(items[first + 2 * n - 2], items[first + 2 * n - 1])
    end
    placed[2 * at - 1], placed[2 * at] = n, place .. string.format('/%.0f', birth) .. (has_key and '' or '/key')
    blocked = blocked + (place == 'dead' and 1 or 0)
  end
  if blocked > 0 then
    redis.call('HINCRBY', counters, 'known', blocked)
  end
  return placed
end
