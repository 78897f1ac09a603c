-- The items that a send knows, each with the name of its message's place: ready, scheduled, leased, dead, expired or acked;
-- 'later' where only a later version can tell. Those that dead letters block are counted.
--   items: id, payload, … from `first` on; existing: for each its record; true: its ack is remembered (lib/recall_acked); else it came before in this call
-- needs: head_of, parse_state, member_of; keys: states, scheduled, counters
-- gives: with_places
local function place_of(id)
  local text = redis.call('HGET', states, id)
  local head, later = head_of(id, text)
  if later then
    return text and text:find(' %+%S+ ') and 'leased' or 'later'
  end
  local state = parse_state(text, head.birth)
  if state.mark == '+' then
    return 'leased'
  elseif state.part ~= 'live' then
    return state.part
  end
  return redis.call('ZSCORE', scheduled, member_of(id, head, state.due)) and 'scheduled' or 'ready'
end

local function with_places(known, items, first, existing, delay)
  local placed, blocked = {}, 0
  for at, n in ipairs(known) do
    local place = existing[n] == true and 'acked' or delay > 0 and 'scheduled' or 'ready'
    if existing[n] and existing[n] ~= true then
      place = place_of(items[first + 2 * n - 2])
    end
    placed[2 * at - 1], placed[2 * at] = n, place
    blocked = blocked + (place == 'dead' and 1 or 0)
  end
  if blocked > 0 then
    redis.call('HINCRBY', counters, 'known', blocked)
  end
  return placed
end
