-- Of the rows that a claim may take, with their ids and states, those that it may hand out. The others are parked: a
-- message whose dependency is closed in the lane of the dependency, one whose key is paused in the lane of the key. With
-- ordered keys a message that waits for its dependency keeps the seat of its key, so no message overtakes it; otherwise it
-- gives the seat back. If any was parked, it reads a hundred rows more, so that few claims are enough.
-- needs: BLOCKED, PASS, rule, head_of, id_of, is_closed, vacate, end_passes; keys: states, ready, scheduled, seats
-- gives: past_gates
local AHEAD = 100 -- rows (I9)

-- The closed lane in which a message must wait, and whether it is the lane of its dependency; nil: none.
local function closed_lane(id, row, text)
  if row:byte() > 15 or text and not text:find('^%a+/?%a* %-') then -- in no lane (lib/order), or it is leased
    return nil
  end
  local head = head_of(id, text)
  if head and head.needs and is_closed(head.needs) and not redis.call('ZSCORE', seats, PASS .. id) then
    return head.needs, true
  end
  return head and head.lane and is_closed(head.lane) and head.lane or nil, false
end

-- Parks a message, if it must wait; whether it must.
local function parked(row, id, text, leaving)
  local lane, of_dependency = closed_lane(id, row, text)
  if not lane then
    return false
  end
  redis.call('ZADD', scheduled, BLOCKED + lane, row)
  redis.call('ZREM', ready, row)
  if not of_dependency then
    end_passes({ id })
  end
  if not (of_dependency and rule.in_order) then
    leaving[#leaving + 1] = id
  end
  return true
end

local function past_gates(rows, ids, texts)
  local kept, names, lines, leaving = {}, {}, {}, {}
  for n, row in ipairs(rows) do
    if not parked(row, ids[n], texts[n], leaving) then
      kept[#kept + 1], names[#names + 1], lines[#lines + 1] = row, ids[n], texts[n]
    end
  end
  for _, row in ipairs(#kept < #rows and redis.call('ZRANGE', ready, #kept, #kept + AHEAD - 1) or {}) do
    parked(row, id_of(row), redis.call('HGET', states, id_of(row)), leaving)
  end
  if #leaving > 0 and rule.limit < math.huge then
    vacate(leaving)
  end
  return kept, names, lines
end
